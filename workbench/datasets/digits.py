"""Handwritten digits that come with scikit-learn, so they are always there.

1,797 images of 8 x 8 pixels in 17 grey levels: the test set of Alpaydin and Kaynak, "Optical
Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

import numpy as np

from workbench.datasets.dataset import Dataset

_TEST_ONE_IN = 5
WHITE = 16


def load() -> Dataset:
    """Load the digits: 1,442 images to train on, 355 to test.

    The set has no split of its own. Of each class every fifth image, in the file's order, is for
    testing, so that both parts have all classes and all writers without any chance.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = (images.reshape(-1, 1, 8, 8) / WHITE).astype(np.float32)
    y = labels.astype(np.int64)
    in_test = np.zeros(len(y), dtype=bool)
    for label in range(10):
        in_test[np.flatnonzero(y == label)[_TEST_ONE_IN - 1 :: _TEST_ONE_IN]] = True
    classes = tuple(map(str, range(10)))
    return Dataset("digits", x[~in_test], y[~in_test], x[in_test], y[in_test], classes)
