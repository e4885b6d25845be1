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
    """Keeps what it is told, and asks to stop at the end of so many expected sizes."""

    def __init__(self, enough=1000):
        self.enough, self.begun, self.ended, self.fits, self.given, self.down = enough, [], [], [], [], 0

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
        return self.ended.count("expected-size") >= self.enough


def test_every_size_of_the_path_is_a_task():
    seen = Recorder()
    model = EPClassifier().set_callbacks(seen).fit(X, Y)
    assert seen.begun == ["fit", *["expected-size"] * (len(seen.begun) - 1)]
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


def test_a_fit_by_cross_validation_can_stop_too():
    seen = Recorder(enough=1)
    model = EPClassifier(criterion="cv").set_callbacks(seen).fit(X, Y)
    assert len(model.path_) == 1


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
    kind().set_callbacks(monitor).fit(X, Y)
    rows = monitor.get_logs().data
    assert {row["task_name"] for row in rows} == {"fit", "expected-size"}
    assert all(0.5 <= row["accuracy"] <= 1.0 for row in rows)


def test_a_progress_bar_of_a_search_goes_down_to_the_sizes(capsys):
    pytest.importorskip("rich")
    search = GridSearchCV(make_pipeline(StandardScaler(), EPClassifier()), {"epclassifier__eta": [0.9, 1.0]}, cv=2)
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(X, Y)
    assert "EPClassifier" in capsys.readouterr().out


def test_a_clone_and_a_saved_model_are_whole(tmp_path):
    model = EPClassifier(n_features_expected=2).set_callbacks(Recorder()).fit(X, Y)
    assert clone(model).fit(X, Y).score(X, Y) == model.score(X, Y)
    model.save(tmp_path / "model")
    same = EPClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
