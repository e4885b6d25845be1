"""dilutron as one step among others: a pipeline, a grid search, and a selector for another classifier."""

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from dilutron import EPClassifier

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, stratify=data.target, random_state=0)
folds = StratifiedKFold(3, shuffle=True, random_state=0)

pipe = make_pipeline(PowerTransformer(), EPClassifier())
grid = {"epclassifier__n_features_expected": [3, 10, None]}  # None: found from the data, without a search
search = GridSearchCV(pipe, grid, cv=folds, scoring="neg_log_loss").fit(X, y)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['epclassifier__n_features_expected']!s:>4} features expected: log loss {-score:.3f}")
best = search.best_estimator_
print(f"the best of these on {len(y_test)} new samples: accuracy {best.score(X_test, y_test):.3f}")

model = best[-1]
print("\nits six most probable features, and the probability that each matters")
for column in model.selected(n_features_to_select=6):
    print(f"{model.inclusion_proba_[column]:.2f}  {data.feature_names[column]}")

few = make_pipeline(EPClassifier(n_features_to_select=6), RandomForestClassifier(100, random_state=0))
everything = RandomForestClassifier(100, random_state=0)
print("\na random forest, accuracy in three folds")
print(f"on six features that EPClassifier selects in each fold: {cross_val_score(few, X, y, cv=folds).mean():.3f}")
print(f"on all {X.shape[1]} features: {cross_val_score(everything, X, y, cv=folds).mean():.3f}")
