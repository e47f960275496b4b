"""Question files of the papers: FlashRAG's rows and Search-R1's, as JSON lines or parquet.

FlashRAG: ``id, question, golden_answers, metadata``. Search-R1 adds ``data_source`` and keeps the answers also under
``reward_model.ground_truth.target``.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_envs.envs.search_qa.questions import Question
from agent_envs.errors import DependencyNotInstalled

SINGLE_HOP = ("nq", "triviaqa", "popqa")
MULTI_HOP = ("hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
BENCHMARKS = SINGLE_HOP + MULTI_HOP
"""The seven data sets of Search-R1 and GiGPO, in the order of their tables."""
TRAINED_ON = ("nq", "hotpotqa")
_SUFFIXES = (".jsonl", ".json", ".parquet")
_SPLIT_ORDER = ("test", "dev", "train")


def load_questions(path: str | os.PathLike[str], *, source: str = "") -> list[Question]:
    """Read one file.

    Args:
        path: ``.jsonl`` or ``.parquet``.
        source: Name of the data set for rows without ``data_source``; the file's stem if empty.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a row has no question or no answer, or ids repeat; the text names the row.
        DependencyNotInstalled: For parquet without pyarrow.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"No question file {file}. See docs/search_qa_data.md for where to get the data sets.")
    rows = _parquet_rows(file) if file.suffix == ".parquet" else _json_rows(file)
    questions: list[Question] = []
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, 1):
        question = read_question(row, f"{file} row {number}", default_id=str(number - 1), source=source or file.stem)
        first = seen.setdefault((question.source, question.id), number)
        if first != number:
            raise ValueError(
                f"{file}: rows {first} and {number} have the same id {question.id!r} in {question.source!r}."
            )
        questions.append(question)
    if not questions:
        raise ValueError(f"{file} holds no questions.")
    return questions


def read_question(row: Mapping[str, Any], where: str, *, default_id: str, source: str) -> Question:
    """Read one row of either format; a question mark is added where it is missing.

    Raises:
        ValueError: If question or answers are missing.
    """
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{where} has no question: {str(row)[:200]}")
    answers = _answers(row)
    if not answers:
        raise ValueError(f"{where} has no answers: expected golden_answers or reward_model.ground_truth.target.")
    name = str(row.get("data_source") or source)
    text = text.strip()
    return Question(
        id=str(row["id"]) if row.get("id") is not None else default_id,
        source=name,
        text=text if text.endswith("?") else text + "?",
        answers=answers,
        num_hops=1 if name in SINGLE_HOP else 2 if name in MULTI_HOP else 0,
    )


def load_splits(questions: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, list[Question]]:
    """Return split name to questions from a file, a folder, or a mapping of split names to files.

    - A mapping: ``{"train": "a.jsonl", "test": ["b.jsonl", "c.parquet"]}``.
    - A folder with ``train``, ``dev`` or ``test`` files.
    - A folder with one folder per data set of FlashRAG (``nq/test.jsonl``, ...): ``train`` is NQ and HotpotQA, ``test``
      is the test file of each of the seven data sets, or its dev, or its train file, as Search-R1 does.
    - A file: split ``test``.

    Raises:
        FileNotFoundError: If nothing is found.
        ValueError: If two files of a split have a question in common.
    """
    if isinstance(questions, Mapping):
        files = {str(name): _file_list(value) for name, value in questions.items()}
    elif Path(questions).is_dir():
        files = _folder_files(Path(questions))
    else:
        files = {"test": [(Path(questions), "")]}
    splits = {}
    for name, members in files.items():
        rows = [question for file, source in members for question in load_questions(file, source=source)]
        if len({(question.source, question.id) for question in rows}) < len(rows):
            raise ValueError(f"The files of split {name!r} share question ids: {[str(file) for file, _ in members]}.")
        splits[name] = rows
    return splits


def _file_list(value: Any) -> list[tuple[Path, str]]:
    return [(Path(item), "") for item in ([value] if isinstance(value, (str, os.PathLike)) else value)]


def _folder_files(folder: Path) -> dict[str, list[tuple[Path, str]]]:
    plain = {name: file for name in ("train", "dev", "test") if (file := _find(folder, (name,)))}
    if plain:
        return {name: [(file, "")] for name, file in plain.items()}
    files: dict[str, list[tuple[Path, str]]] = {"train": [], "test": []}
    for name in BENCHMARKS:
        if name in TRAINED_ON and (file := _find(folder / name, ("train",))):
            files["train"].append((file, name))
        if file := _find(folder / name, _SPLIT_ORDER):
            files["test"].append((file, name))
    files = {name: members for name, members in files.items() if members}
    if not files:
        raise FileNotFoundError(
            f"{folder} has neither train, dev or test files ({', '.join(_SUFFIXES)}) nor folders named after the data "
            f"sets ({', '.join(BENCHMARKS)})."
        )
    return files


def _find(folder: Path, stems: Sequence[str]) -> Path | None:
    names = (folder / f"{stem}{suffix}" for stem in stems for suffix in _SUFFIXES)
    return next((file for file in names if file.is_file()), None)


def _answers(row: Mapping[str, Any]) -> tuple[str, ...]:
    found = row.get("golden_answers")
    if found is None:
        found = ((row.get("reward_model") or {}).get("ground_truth") or {}).get("target")
    if found is None:
        return ()
    items = [found] if isinstance(found, str) else list(found)  # numpy arrays and tuples too
    return tuple(dict.fromkeys(str(item).strip() for item in items if str(item).strip()))


def _json_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ValueError(f"{file} row {number} is not JSON ({error}): {line[:80]!r}.") from None
            if not isinstance(row, dict):
                raise ValueError(f"{file} row {number} is not an object: {line[:80]!r}.")
            yield row


def _parquet_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise DependencyNotInstalled("pyarrow is not installed, run pip install pyarrow (it reads parquet)") from None
    table = parquet.ParquetFile(file)
    wanted = {"id", "question", "golden_answers", "data_source", "reward_model"}
    columns = [name for name in table.schema_arrow.names if name in wanted]
    for batch in table.iter_batches(columns=columns):
        yield from batch.to_pylist()
