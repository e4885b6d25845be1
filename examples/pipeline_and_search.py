"""
In a Pipeline, with GridSearchCV
================================

``EPClassifier`` is a scikit-learn estimator. It can be searched, follow other steps, and select features for
another classifier. The data are scikit-learn's breast cancer table.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

from dilutron import EPClassifier

data = load_breast_cancer()
X, X_test, y, y_test = train_test_split(data.data, data.target, stratify=data.target, random_state=0)
folds = StratifiedKFold(3, shuffle=True, random_state=0)

# %%
# The search tries two expected sizes and ``None``, which finds the size from the data without any search. The
# differences are small here.

pipe = make_pipeline(PowerTransformer(), EPClassifier())
grid = {"epclassifier__n_features_expected": [3, 10, None]}
search = GridSearchCV(pipe, grid, cv=folds, scoring="neg_log_loss").fit(X, y)
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['epclassifier__n_features_expected']!s:>4} features expected: log loss {-score:.3f}")
best = search.best_estimator_
print(f"the best of these on {len(y_test)} new samples: accuracy {best.score(X_test, y_test):.3f}")

# %%
# The last step of the best pipeline is a fitted model like any other.

model = best[-1]
six = model.selected(n_features_to_select=6)
print("its six most probable features, and the probability that each matters")
for column in six:
    print(f"{model.inclusion_proba_[column]:.2f}  {data.feature_names[column]}")

figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.barh(data.feature_names[six][::-1], model.inclusion_proba_[six][::-1], color="#0072B2")
ax.set(xlabel="probability that it matters", xlim=(0, 1))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# As a selector: six features are enough for a random forest. On which side the small difference to all features
# falls says little with one split.

few = make_pipeline(EPClassifier(n_features_to_select=6), RandomForestClassifier(100, random_state=0))
everything = RandomForestClassifier(100, random_state=0)
print("a random forest, accuracy in three folds")
print(f"on six features that EPClassifier selects in each fold: {cross_val_score(few, X, y, cv=folds).mean():.3f}")
print(f"on all {X.shape[1]} features: {cross_val_score(everything, X, y, cv=folds).mean():.3f}")
