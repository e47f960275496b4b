"""The policy: a causal LM and its tokenizer, loaded by name or built small from scratch."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agent_envs.quiet import quiet_loading
from agent_envs.trainers.local.generation import StopFn
from agent_envs.trainers.recipe import LocalSection

# Words with their leading blank and whole numbers are one piece, a word with its number ("drawer 2") and tags too;
# capitals stand alone, so that every cell of a grid such as "#_XP" is one token.
_PIECES = r"</?[a-z]+>| ?[a-z]+ [0-9]+| ?[A-Z]?[a-z]+| ?[A-Z]| ?[0-9]+|\s|."
_IN_PHRASES = r" ?[A-Z]?[a-z]+|[,.:]"
_SPECIAL = ("<pad>", "<eos>", "<unk>")
_MAX_PIECES = 4096
_MAX_PHRASES = 256
_MAX_PHRASE_PIECES = 6
_REPLY = "reply-stands-here"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Model and tokenizer with the few operations that rollouts and updates need."""

    model: Any
    tokenizer: Any
    autocast: torch.dtype | None
    """Arithmetic of forward passes, None for float32."""

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @functools.cached_property
    def eos_ids(self) -> list[int]:
        """Tokens that end a reply."""
        configured = self.model.generation_config.eos_token_id
        ids = configured if isinstance(configured, list) else [configured]
        return sorted({int(i) for i in (*ids, self.tokenizer.eos_token_id) if i is not None})

    def encode_prompt(self, text: str) -> list[int]:
        """Return the token ids of one user message, in the model's chat format if it has one."""
        if self.tokenizer.chat_template:
            message = [{"role": "user", "content": text}]
            return self.encode(self.tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False))
        return list(self.tokenizer(text)["input_ids"])

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text as it stands."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def encode_next_message(self, text: str) -> list[int]:
        """Return the token ids between two replies of one conversation: the end of the first and a user message."""
        if self.tokenizer.chat_template:
            chat = [("user", "."), ("assistant", _REPLY), ("user", text)]
            messages = [{"role": role, "content": content} for role, content in chat]
            whole = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            between = whole.split(_REPLY, 1)[1]
        else:
            between = f"\n{text}\n"
        return self.encode(between)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a reply without the end token. Other special tokens stay visible: they are no action."""
        end = len(ids) - (1 if ids and ids[-1] in self.eos_ids else 0)
        text: str = self.tokenizer.decode(list(ids[:end]), clean_up_tokenization_spaces=False)
        return text

    def stop(self, text: str | None) -> StopFn:
        """Return the function that says whether a reply contains the stop string; None never stops."""
        if not text:
            return lambda ids: False
        window = len(text.encode()) + 1
        may_end: dict[int, bool] = {}

        def stopped(ids: Sequence[int]) -> bool:
            last = ids[-1]
            if last not in may_end:
                may_end[last] = text[-1] in self.tokenizer.decode([last], clean_up_tokenization_spaces=False)
            return may_end[last] and text in self.decode(ids[-window:])

        return stopped

    def save(self, folder: Path) -> None:
        """Write model and tokenizer as a folder that ``transformers`` loads."""
        with quiet_loading():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def build_tokenizer(texts: Iterable[str]) -> Any:
    """Return a tokenizer whose pieces are words, symbols and frequent phrases of the texts, and ASCII characters.

    Environments say the same few sentences again and again: phrases make prompts and replies much shorter, and a step
    of a small model that much cheaper. Any ASCII text, and any text made of the pieces, is decoded to itself.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    lines = Counter(line for text in texts for line in text.splitlines(keepends=True))
    split = {line: re.findall(_PIECES, line, re.DOTALL) for line in lines}
    counts: Counter[str] = Counter()
    for line, number in lines.items():
        for piece in split[line]:
            counts[piece] += number
    pieces = sorted(piece for piece, _ in counts.most_common(_MAX_PIECES) if piece not in _SPECIAL)
    pieces += _phrases(split.values())
    characters = [chr(code) for code in (9, 10, *range(32, 127)) if chr(code) not in counts]
    # Whole pieces beat their characters; characters spell what the texts never said.
    vocabulary = [(token, 0.0) for token in _SPECIAL]
    vocabulary += [(piece, -1.0) for piece in pieces] + [(character, -20.0) for character in characters]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def _phrases(lines: Iterable[list[str]]) -> list[str]:
    """Return the sequences of words that save most tokens in different lines, which are given as pieces."""
    saved: Counter[str] = Counter()
    for pieces in lines:
        inside = [re.fullmatch(_IN_PHRASES, piece) is not None for piece in pieces]
        for start in range(len(pieces)):
            for end in range(start + 1, min(start + _MAX_PHRASE_PIECES, len(pieces)) + 1):
                if not inside[end - 1]:
                    break
                phrase = "".join(pieces[start:end])
                if end - start > 1 and re.search("[a-z]{2}", phrase):
                    saved[phrase] += end - start - 1
    return sorted(phrase for phrase, _ in saved.most_common(_MAX_PHRASES))


def build_tiny_model(vocab_size: int, local: LocalSection, seed: int) -> Any:
    """Return a small Llama with random weights drawn from ``seed``; torch's global generator is left as it was."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=local.hidden_size,
        intermediate_size=2 * local.hidden_size,
        num_hidden_layers=local.num_layers,
        num_attention_heads=local.num_heads,
        num_key_value_heads=local.num_heads,
        max_position_embeddings=local.max_prompt_tokens + local.max_response_tokens,
        tie_word_embeddings=True,
        initializer_range=local.hidden_size**-0.5,  # the default of 0.02 is for wide models; narrow ones learn slowly
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def load_policy(path: str | Path, local: LocalSection) -> Policy:
    """Load model and tokenizer from a folder or hub name.

    Raises:
        ValueError: If there is no such model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if str(path).startswith(("/", ".", "~")) and not Path(path).expanduser().is_dir():
        raise ValueError(f"local.model={path} is no folder. Give a folder with config.json and weights, or a hub name.")
    try:
        with quiet_loading():
            model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except OSError as error:
        raise ValueError(f"local.model={path} cannot be loaded: {error}") from None
    return make_policy(model, tokenizer, local)


def make_policy(model: Any, tokenizer: Any, local: LocalSection) -> Policy:
    """Put a model on the recipe's device, ready for rollouts: dropout stays off in updates too."""
    device = choose_device(local.device)
    autocast = torch.bfloat16 if local.dtype == "bfloat16" else None
    return Policy(model=model.to(device).eval(), tokenizer=tokenizer, autocast=autocast)


def choose_device(name: str) -> torch.device:
    """Return the device of a recipe's ``local.device``.

    Raises:
        ValueError: If it names a GPU that is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"local.device={name!r} but torch sees no GPU; use local.device=cpu or auto.")
    return device


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Use ``number`` CPU threads inside the block, 0 for torch's own choice."""
    before = torch.get_num_threads()
    if number:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
