"""dilutron as one step among others: a pipeline, a grid search, and a selector for another classifier."""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from dilutron.estimators import EPClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=False)
folds = StratifiedKFold(3, shuffle=True, random_state=0)

pipe = make_pipeline(PowerTransformer(), EPClassifier())
search = GridSearchCV(pipe, {"epclassifier__n_features_expected": [3, 10, None]}, cv=folds, scoring="neg_log_loss")
search.fit(X, y)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['epclassifier__n_features_expected']!s:>5} features expected: log loss {-score:.4f}")

forest = make_pipeline(EPClassifier(n_features_to_select=6), RandomForestClassifier(100, random_state=0))
print(f"a forest on the six most probable features: accuracy {cross_val_score(forest, X, y, cv=folds).mean():.3f}")
