"""scikit-learn's callbacks: what they are told of a fit, and what a fit does when one asks to stop."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dilutron import classifier
from dilutron.estimators import AMPClassifier, EPClassifier, R1BCSClassifier, VAMPClassifier

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 20))
Y = np.where(X[:, 0] - X[:, 1] + 0.3 * RNG.normal(size=60) > 0, "ill", "well")
THREE = np.where(X[:, 2] > 0.5, "other", Y)


class Recorder:
    """Keeps what it is told, and asks to stop at the end of so many tasks of a name."""

    def __init__(self, enough=1000, of="expected-size"):
        self.of, self.enough = of, enough
        self.begun, self.ended, self.fits, self.given, self.down = [], [], [], [], 0

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        self.down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None, metadata=None):
        self.begun.append(context.task_name)
        self.given.append((X, metadata))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.ended.append(context.task_name)
        self.fits.append(fitted_estimator)
        return self.ended.count(self.of) >= self.enough


def test_every_size_of_the_path_is_a_task():
    seen = Recorder()
    model = EPClassifier().set_callbacks(seen).fit(X, Y)
    assert seen.begun[0] == "fit"
    assert set(seen.begun[1:]) <= {"expected-size", "trial"}
    assert seen.ended == [*seen.begun[1:], "fit"]
    assert seen.ended.count("expected-size") >= len(model.path_) > 2
    assert seen.down == 1


def test_callbacks_change_nothing():
    plain, watched = EPClassifier().fit(X, Y), EPClassifier().set_callbacks(Recorder()).fit(X, Y)
    np.testing.assert_array_equal(plain.inclusion_proba_, watched.inclusion_proba_)
    assert vars(plain).keys() == vars(watched).keys() - {"_skl_callbacks"}


def test_the_estimator_at_the_end_of_a_task_predicts_as_if_the_fit_had_ended_there():
    seen = Recorder()
    model = EPClassifier().set_callbacks(seen).fit(X, Y)
    *sizes, last = seen.fits
    np.testing.assert_array_equal(last.predict_proba(X), model.predict_proba(X))
    assert all(size.score(X, Y) > 0.7 and size.coef_.shape == (1, 20) for size in sizes)
    assert len({size.rho_ for size in sizes}) == len(model.path_)


def test_where_one_size_is_all_the_estimator_at_its_end_is_the_fit():
    seen = Recorder()
    model = EPClassifier(n_features_expected=3).set_callbacks(seen)
    for labels in (Y[::-1], Y):  # nothing is left of an earlier fit
        seen.fits.clear()
        model.fit(X, labels)
        first = seen.fits[0]
        for name in ("sharpness_", "label_error_proba_", "coef_", "inclusion_proba_"):
            np.testing.assert_array_equal(getattr(first, name), getattr(model, name), err_msg=name)
        np.testing.assert_array_equal(first.predict_proba(X), model.predict_proba(X))
        assert first.suspect_labels(n_labels=3).rows.tolist() == model.suspect_labels(n_labels=3).rows.tolist()


def test_rows_of_zeros_which_tell_some_methods_nothing_are_no_fault():
    seen, table = Recorder(), X.copy()
    table[7] = 0.0
    model = VAMPClassifier(n_features_expected=3, standardize=False).set_callbacks(seen).fit(table, Y)
    assert seen.fits[0] is None
    assert model.label_error_proba_.size == 60


def test_three_classes_are_three_tasks_with_their_sizes_below():
    seen = Recorder()
    EPClassifier(n_features_expected=3).set_callbacks(seen).fit(X, THREE)
    assert seen.begun.count("class-against-rest") == 3
    assert seen.ended.count("expected-size") >= 3
    assert [one is None for one in seen.fits] == [name != "fit" for name in seen.ended]


def test_a_fit_that_is_asked_to_stop_answers_with_what_there_is():
    seen = Recorder(enough=2)
    model = EPClassifier().set_callbacks(seen).fit(X, Y)
    assert len(model.path_) == 2 == seen.ended.count("expected-size")
    assert len(EPClassifier().fit(X, Y).path_) > 2
    assert model.score(X, Y) > 0.7
    np.testing.assert_allclose(sum(row.weight for row in model.path_), 1.0)


@pytest.mark.parametrize("enough", [1, 2, 9])
@pytest.mark.parametrize(
    "model",
    [EPClassifier(), EPClassifier(criterion="cv"), VAMPClassifier(criterion="cv"), AMPClassifier(), R1BCSClassifier()],
    ids=str,
)
def test_all_that_can_be_fitted_can_be_stopped(model, enough):
    seen = Recorder(enough)
    model = clone(model).set_params(**({"random_state": 0} if "random_state" in model.get_params() else {}))
    model.set_callbacks(seen).fit(X, Y)
    assert seen.ended.count("expected-size") <= enough
    assert seen.ended[-1] == "fit"
    assert np.all(np.isfinite(model.coef_))
    if model.path_:
        np.testing.assert_allclose(sum(row.weight for row in model.path_), 1.0)


def test_folds_are_tasks_with_their_sizes_below():
    seen = Recorder()
    model = EPClassifier(criterion="cv", n_folds=3).set_callbacks(seen).fit(X, Y)
    assert seen.begun.count("held-out-fold") == 3
    assert seen.ended.count("expected-size") > len(model.path_) + 3
    first = seen.ended.index("held-out-fold")
    assert seen.fits[first] is None, "it is of a part of the rows"


def test_a_stop_while_folds_are_held_out_keeps_those_that_are_whole():
    free, whole = EPClassifier(criterion="cv", n_folds=3, random_state=0), Recorder()

    def scores(seen):
        return np.array([row.score for row in clone(free).set_callbacks(seen).fit(X, Y).path_])

    every = scores(whole)
    first, second, _ = (k for k, name in enumerate(whole.ended) if name == "held-out-fold")
    within_first, within_second = (whole.ended[:k].count("expected-size") for k in (first, second))
    left_out = [row.score for row in EPClassifier().fit(X, Y).path_[: every.size]]
    np.testing.assert_allclose(scores(Recorder(within_first)), left_out, rtol=1e-6)
    one, two, three = (scores(Recorder(folds, "held-out-fold")) for folds in (1, 2, 3))
    assert np.all((0.0 > one) & (one > two) & (two > three))
    np.testing.assert_array_equal(three, every)
    np.testing.assert_array_equal(scores(Recorder(within_second)), one)


def test_classes_that_come_after_a_stop_take_one_size_each():
    seen = Recorder(enough=2)
    model = EPClassifier().set_callbacks(seen).fit(X, THREE)
    assert [len(path) for path in model.path_] == [2, 1, 1]
    assert model.score(X, THREE) > 0.5


def test_the_table_is_handed_on_as_it_was_given():
    seen, weight = Recorder(), np.ones(60)
    EPClassifier(n_features_expected=2).set_callbacks(seen).fit(X, Y, sample_weight=weight)
    assert all(table is X and told["sample_weight"] is weight for table, told in seen.given)


def test_callbacks_are_torn_down_when_a_fit_is_interrupted(monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    seen, model = Recorder(), EPClassifier()
    monkeypatch.setattr(classifier, "fitted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(seen).fit(X, Y)
    assert seen.begun == ["fit"]
    assert seen.down == 1
    monkeypatch.undo()
    assert model.fit(X, Y).score(X, Y) > 0.7


@pytest.mark.parametrize("kind", [EPClassifier, VAMPClassifier, AMPClassifier, R1BCSClassifier])
def test_scores_along_the_path_are_monitored(kind):
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = kind(**({"random_state": 0} if "random_state" in kind().get_params() else {}))
    model.set_callbacks(monitor).fit(X, Y)
    rows = monitor.get_logs().data
    assert {"fit", "expected-size"} <= {row["task_name"] for row in rows} <= {"fit", "expected-size", "trial"}
    assert all(0.5 <= row["accuracy"] <= 1.0 for row in rows)


def test_a_progress_bar_of_a_search_goes_down_to_the_sizes(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "200")
    search = GridSearchCV(make_pipeline(StandardScaler(), EPClassifier()), {"epclassifier__eta": [0.9, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "EPClassifier" in capsys.readouterr().out


def test_a_clone_and_a_saved_model_are_whole(tmp_path):
    model = EPClassifier(n_features_expected=2).set_callbacks(Recorder()).fit(X, Y)
    assert clone(model).fit(X, Y).score(X, Y) == model.score(X, Y)
    model.save(tmp_path / "model")
    same = EPClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
