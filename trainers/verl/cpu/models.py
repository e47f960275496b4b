"""Small models made on the spot: the local trainer's, with what verl wants besides, and byte-level Qwen models."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent_envs.trainers.recipe import AgentEnvsSection, Recipe, recipe_from_dict

# verl renders prompts by chat template only. This one adds nothing, so that the ids are those of the local trainer.
_PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny_model(section: AgentEnvsSection, local: Mapping[str, Any], cache: Path) -> Path:
    """Build the local trainer's starting policy for a recipe, cloned if it says so, as a folder for verl.

    Args:
        section: The recipe's environment section.
        local: Keys of the local trainer's ``local:`` section: sizes, lengths, cloning.
        cache: Folder of such models; an equal start is loaded from it.
    """
    import dataclasses

    from agent_envs.trainers.local.warmstart import initial_policy

    # Single turns are cloned whatever the context trained in.
    data = {"agent_envs": {**dataclasses.asdict(section), "context": "step"}, "local": {"device": "cpu", **local}}
    recipe: Recipe = recipe_from_dict(data, name="tiny")
    text = json.dumps(recipe.to_dict(), sort_keys=True)
    folder = cache / f"verl-{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"

    def write(path: Path) -> None:
        policy = initial_policy(recipe, cache)
        policy.tokenizer.chat_template = _PLAIN
        policy.save(path)

    return _once(folder, write)


def make_random_model(name: str, cache: Path) -> Path:
    """Write a model of ``verl.random_model`` into a folder of ``cache`` and return it."""
    return {"qwen2": make_qwen2, "qwen2.5-vl": make_qwen2_5_vl}[name](cache / f"random-{name}")


def make_qwen2(folder: Path, *, seed: int = 0) -> Path:
    """Write a random Qwen2 with a byte-level tokenizer and Qwen's chat format; return the folder."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    def write(path: Path) -> None:
        tokenizer = _byte_tokenizer()
        sizes = _sizes(tokenizer, 256)  # 4 heads of 64, a size that GPU kernels know
        _seeded(seed, lambda: Qwen2ForCausalLM(Qwen2Config(**sizes))).save_pretrained(path)
        tokenizer.save_pretrained(path)

    return _once(folder, write)


def make_qwen2_5_vl(folder: Path, *, seed: int = 0) -> Path:
    """Write a random Qwen2.5-VL with its processor; return the folder. Needs torchvision."""
    from agent_envs.trainers.verl.cpu.vision import define_missing_operators

    define_missing_operators()
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2VLImageProcessor,
    )
    from transformers.models.qwen2_vl import Qwen2VLVideoProcessor

    def write(path: Path) -> None:
        tokenizer = _byte_tokenizer(image_token="<|image_pad|>", video_token="<|video_pad|>")
        ids = tokenizer.convert_tokens_to_ids
        width = 32
        rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
        config = Qwen2_5_VLConfig(
            text_config={**_sizes(tokenizer, width), "rope_parameters": rope},
            vision_config={
                "depth": 1,
                "hidden_size": width,
                "intermediate_size": 2 * width,
                "num_heads": 2,
                "out_hidden_size": width,
                "fullatt_block_indexes": [0],
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "window_size": 112,
            },
            image_token_id=ids("<|image_pad|>"),
            video_token_id=ids("<|video_pad|>"),
            vision_start_token_id=ids("<|vision_start|>"),
            vision_end_token_id=ids("<|vision_end|>"),
            tie_word_embeddings=False,
        )
        _seeded(seed, lambda: Qwen2_5_VLForConditionalGeneration(config)).save_pretrained(path)
        processor = Qwen2_5_VLProcessor(
            image_processor=Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=112 * 112),
            tokenizer=tokenizer,
            video_processor=Qwen2VLVideoProcessor(),
            chat_template=_CHATML,
        )
        processor.save_pretrained(path)

    return _once(folder, write)


def _byte_tokenizer(**extra: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {char: place for place, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary |= {token: len(vocabulary) + place for place, token in enumerate(_SPECIAL)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(_SPECIAL))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=extra
    )
    fast.chat_template = _CHATML
    return fast


def _sizes(tokenizer: Any, hidden_size: int) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


def _seeded(seed: int, build: Callable[[], Any]) -> Any:
    """Build with weights drawn from ``seed``; torch's global generator is left as it was."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def _once(folder: Path, write: Callable[[Path], None]) -> Path:
    """Fill a folder unless it is there, so that a broken attempt leaves nothing."""
    if not (folder / "config.json").is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
        try:
            write(draft)
            os.replace(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder
