"""Run folders made by hand, as `dilutron fit` would leave them: one for each thing that a report must say."""

import csv
import json

import numpy as np

CLASSES = ("normal", "tumour")
FEATURES = ["feature", "inclusion", "coefficient", "low", "high"]
FEATURES += ["standardized", "standardized_low", "standardized_high", "group"]


def facts(classes=CLASSES, n_features=20, n_rows=120):
    """run.json of a run without any fault."""
    n_each = n_rows // len(classes)
    path = [(50.0, 0.0), (5.0, 0.2), (3.0, 0.7), (1.0, 0.1)]
    return {
        "dilutron": "0.1.0",
        "created": "2026-01-02T03:04:05+00:00",
        "data": {
            "file": "folder/patients.csv", "sha256": "ab" * 32, "n_rows": n_each * len(classes),
            "n_features": n_features, "label": "kind", "id": "sample", "positive": classes[-1], "dropped": ["age"],
            "log": False, "impute": None, "n_imputed": 0,
        },
        "classes": list(classes),
        "counts": dict.fromkeys(classes, n_each),
        "settings": {"rho": "auto", "criterion": "loo", "eta": "auto", "standardize": True, "tol": 1e-3},
        "versions": {"python": "3.12.1", "numpy": "2.0.0", "scipy": "1.14.0", "scikit-learn": "1.6.0"},
        "result": {
            "status": "converged", "converged": True, "n_iter": 40, "eta": 0.97, "rho": 0.15, "beta": 0.5, "lam": 1.0,
            "log_evidence": -40.0, "n_features_likely": 3,
            "path": [
                {"size": size, "score": -40.0, "weight": weight, "log_evidence": -40.0, "status": "converged"}
                for size, weight in path
            ],
        },
        "held_out": {
            "folds": 5, "repeats": 1, "accuracy": 0.9, "accuracy_se": 0.02, "auc": 0.95, "auc_se": 0.01,
            "log_loss": 0.3, "majority": 1 / len(classes),
        },
        "seconds": 1.25,
    }  # fmt: skip


def write(folder, *, names=None, told=None, inclusion=None, ids=None, suspects=(), groups=(), seed=0):
    """A run folder of `told` (run.json); the tables are made up to fit it."""
    told = told or facts()
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps(told), encoding="utf-8")
    classes, n_features = told["classes"], told["data"]["n_features"]
    names = names or [f"gene {i}" for i in range(n_features)]
    if inclusion is None:
        inclusion = [0.98, 0.95, 0.7, *np.linspace(0.2, 0.01, n_features - 3)]
    _features(folder, classes, names, inclusion, groups)
    _table(folder / "groups.csv", ["group", "inclusion", "prior", "correlation", "n_members", "members"], groups)
    given = [name for name, n in told["counts"].items() for _ in range(n)]
    ids = ids or [f"S{i}" for i in range(len(given))]
    _labels(folder, classes, given, ids, suspects, rng)
    if told["held_out"] is not None:
        _predictions(folder, classes, given, ids, rng)
    _trace(folder, classes)
    top = names[: min(30, n_features)]
    values = np.atleast_2d(np.corrcoef(rng.normal(size=(40, len(top))), rowvar=False))
    rows = [[name, *row] for name, row in zip(top, values.tolist(), strict=True)]
    _table(folder / "correlations.csv", ["", *top], rows)
    return folder


def _features(folder, classes, names, inclusion, groups):
    member = {name: group[0] for group in groups for name in group[5].split("; ")}
    rows = [
        [name, p, p * 2.0, 0.5, 3.0, p * 1.5, 0.3, 2.0, member.get(name, "")]
        for name, p in zip(names, inclusion, strict=True)
    ]
    if len(classes) == 2:
        _table(folder / "features.csv", FEATURES, rows)
    else:
        several = [[one, *row] for k, row in enumerate(rows) for one in (classes[k % len(classes)],)]
        _table(folder / "features.csv", ["class", *FEATURES], several)


def _labels(folder, classes, given, ids, suspects, rng):
    error = 0.1 * rng.random(len(given))
    error[list(suspects)] = 0.95
    rows = []
    for i in np.argsort(-error):
        other = classes[(classes.index(given[i]) + 1) % len(classes)]
        rows.append([i + 1, ids[i], given[i], other, error[i], "true" if i in suspects else "false"])
    _table(folder / "labels.csv", ["row", "id", "given", "suggested", "error_probability", "suspect"], rows)


def _predictions(folder, classes, given, ids, rng):
    rows = []
    for i, one in enumerate(given):
        p = rng.dirichlet([4.0 if name == one else 1.0 for name in classes])
        rows.append([i + 1, ids[i], one, i % 5 + 1, *p, classes[int(np.argmax(p))]])
    _table(folder / "predictions.csv", ["row", "id", "given", "fold", *(f"p({c})" for c in classes), "predicted"], rows)


def _trace(folder, classes):
    several = [()] if len(classes) == 2 else [(one,) for one in classes]
    rows = [[*which, k, 5.0 if k < 8 else 3.0, "direct", 10.0 ** (-k / 3)] for which in several for k in range(1, 12)]
    _table(
        folder / "trace.csv", [*(["class"] if len(several) > 1 else []), "iteration", "size", "stage", "mismatch"], rows
    )


def _table(path, header, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
