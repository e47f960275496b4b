"""Tests of every task of the mini world; the builder writes a copy into each task. Run by AppWorld's evaluator."""

import json


def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):  # type: ignore[no-untyped-def]
    """Check the final databases against what the task's ``private_data`` says."""
    for check in private_data["checks"]:
        with test(check["requirement"]):
            app, model = check["model"].split(".")
            rows = models.end[app][model].find_all(**check["where"])
            test.case(len(rows), "==", check["count"])
            for row in rows:
                for name, value in check["expect"].items():
                    test.case(getattr(row, name), "==", value)
    with test("assert only the models of the task have changed"):
        extra = models.changed_model_names() - set(private_data["changes"])
        test.case(sorted(extra), "==", [])
    with test("assert no more rows have changed than the task needs"):
        over = []
        for name, allowed in private_data["changes"].items():
            changed = [len(rows) for rows in models.changed_records(name)]
            over += [name for have, may in zip(changed, allowed, strict=True) if have > may]
        test.case(over, "==", [])
    with test("assert the answer is right"):
        test.answer(json.loads(models.end.supervisor.Task.all()[0].answer), ground_truth_answer)
