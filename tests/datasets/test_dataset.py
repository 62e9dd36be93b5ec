"""A data set's own rules: read-only arrays, subsets by seed, images of another shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refusals
from workbench.datasets import IGNORED, Dataset, DatasetError, NamedArrays, load
from workbench.datasets.dataset import check_dataset
from workbench.datasets.images import fit_images
from workbench.profiles.inputs import read_inputs
from workbench.utils.checks import UserError

DIGITS = load("digits")


X, Y = np.zeros((2, 1, 3, 3), np.float32), np.zeros(2, np.int64)


def test_arrays_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        DIGITS.x_train[0] = 0
    Dataset("own", X, Y, X, Y, ("a",))
    X[0] = 0  # the caller's own stay writable


test_dataset_refused = refusals(
    Dataset,
    {"name": "own", "x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "classes": ("a",)},
    {
        "x_train": {"x_train is <U1": [np.array(["a", "b"])], "x_train holds NaN": [X * np.nan]},
        "y_test": {
            "y_test is int32": [np.zeros(2, np.int32)],
            r"shape \(3,\).*each of the 2": [np.zeros(3, np.int64)],
            "labels from 0 to 1, but there are 1 classes": [np.array([0, 1])],
        },
    },
)


class TestOtherKinds:
    TOKENS = np.arange(12).reshape(4, 3)
    INPUTS = NamedArrays({"ids": TOKENS, "mask": TOKENS > 2})

    def test_of_samples_have_a_shape_and_a_type(self) -> None:
        for x, inputs in (
            (self.TOKENS, "int64[3]"),
            (np.zeros((4, 2, 2)), "float64[2,2]"),
            (np.zeros(4, np.float32), "float32[]"),
            (self.INPUTS, "ids=int64[3],mask=bool[3]"),
        ):
            own = Dataset("own", x, np.zeros(4, np.int64), x, np.zeros(4, np.int64))
            assert own.inputs == read_inputs("x", inputs)
            assert len(own.subset([3, 1]).x_train) == 2

    def test_several_inputs_are_chosen_together_and_read_only(self) -> None:
        own = Dataset("own", self.INPUTS, np.arange(4), self.INPUTS, np.arange(4))
        chosen = own.subset([2, 0]).x_train
        np.testing.assert_array_equal(chosen.arrays["ids"], self.TOKENS[[2, 0]])
        np.testing.assert_array_equal(chosen.arrays["mask"], self.TOKENS[[2, 0]] > 2)
        with pytest.raises(ValueError, match="read-only"):
            own.x_train.arrays["ids"][0] = 1

    def test_labels_may_be_of_positions_and_some_ignored_or_numbers(self) -> None:
        positions = np.array([[0, IGNORED], [1, 2]])
        x = self.TOKENS[:2]
        assert Dataset("own", x, positions, x, positions, ("a", "b", "c")).classes
        numbers = np.zeros((2, 3), np.float32)
        assert Dataset("own", x, numbers, x, numbers).y_train.dtype == np.float32

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (np.array([[0, 3], [1, 2]]), "labels from 0 to 3, but there are 3 classes"),
            (np.full((2, 2), IGNORED), "y_train has no label that counts"),
            (np.array([0, IGNORED]), "labels from -100 to 0"),
            (np.zeros(2), "float64; labels of classes are int64"),
            ([0, 1], "y_train is list; it must be an array of numbers"),
            (np.array([0, 1], ">i8"), r">i8, which PyTorch does not have.*astype\('int64'\)"),
            (np.zeros(2, np.longdouble), r"PyTorch does not have.*astype\('float64'\)"),
        ],
    )
    def test_wrong_labels_are_refused(self, y: Any, message: str) -> None:
        with pytest.raises(DatasetError, match=message):
            Dataset("own", self.TOKENS[:2], y, self.TOKENS[:2], y, ("a", "b", "c"))

    def test_only_images_are_fitted(self) -> None:
        own = Dataset("own", self.TOKENS, np.arange(4), self.TOKENS, np.arange(4))
        for change, only in (
            (own.standardised, "floats are standardised"),
            (lambda: own.fitted((1, 8, 8)), "floats of three axes, images, are fitted"),
        ):
            with pytest.raises(DatasetError, match=rf"own has int64\[3\] a sample; only {only}"):
                change()

    def test_inputs_have_as_many_rows_each(self) -> None:
        wrong: Any
        for wrong in ([X], {3: X}, {}, {"a": X, "b": X[:1]}, {"a": 3}):
            with pytest.raises(UserError, match="takes at least one array, of as many rows each"):
                NamedArrays(wrong)

    @pytest.mark.parametrize("rows", [0, "ids", (0, 1)])
    def test_samples_are_chosen_by_slices_and_indices(self, rows: Any) -> None:
        assert len(self.INPUTS[np.array([2, 0])]) == 2
        with pytest.raises(UserError, match="give a slice"):
            self.INPUTS[rows]

    def test_several_inputs_have_no_common_shape(self) -> None:
        own = Dataset("own", self.INPUTS, np.arange(4), self.INPUTS, np.arange(4))
        with pytest.raises(DatasetError, match=r"several inputs, ids=int64\[3\]"):
            _ = own.input_shape


class TestLimit:
    def test_draws_by_seed_without_repeating(self) -> None:
        a, b = (DIGITS.limit(train=100, test=50, seed=7) for _ in range(2))
        np.testing.assert_array_equal(a.x_train, b.x_train)
        np.testing.assert_array_equal(a.y_test, b.y_test)
        assert (len(a.y_train), len(a.y_test)) == (100, 50)
        assert len(np.unique(a.x_train.reshape(100, -1), axis=0)) == 100
        assert not np.array_equal(a.x_train, DIGITS.limit(train=100, seed=8).x_train)

    def test_keeps_images_with_their_labels(self) -> None:
        small = DIGITS.limit(train=20, seed=1)
        for image, label in zip(small.x_train, small.y_train, strict=True):
            (at,) = np.flatnonzero((DIGITS.x_train == image).all((1, 2, 3)))
            assert DIGITS.y_train[at] == label

    def test_fewer_are_the_first_of_more(self) -> None:
        few, more = DIGITS.limit(train=10), DIGITS.limit(train=30)
        np.testing.assert_array_equal(few.x_train, more.x_train[:10])

    def test_more_than_there_are_is_all(self) -> None:
        np.testing.assert_array_equal(DIGITS.limit(train=10**6).x_train, DIGITS.x_train)

    @pytest.mark.parametrize("count", [0, True, 2.5, float("nan"), "5", [5]])
    def test_limit_that_is_not_a_count_of_samples_is_refused(self, count: Any) -> None:
        with pytest.raises(UserError, match=r"test is .* must be a whole number of at least 1"):
            DIGITS.limit(test=count)


class TestSubset:
    def test_keeps_the_order(self) -> None:
        got = DIGITS.subset([5, 3])
        np.testing.assert_array_equal(got.x_train, DIGITS.x_train[[5, 3]])
        assert len(got.y_test) == 355

    @pytest.mark.parametrize("wanted", [[1442], [-1], [], [0.5], [[1]]])
    def test_refuses_what_is_not_there(self, wanted: Any) -> None:
        with pytest.raises(DatasetError, match=r"train"):
            DIGITS.subset(wanted)


class TestFitted:
    def test_enlarges_by_a_whole_factor_and_frames(self) -> None:
        fitted = DIGITS.fitted((3, 28, 28))
        assert fitted.input_shape == (3, 28, 28)
        for channel in range(3):
            inner = fitted.x_test[:, channel, 2:26, 2:26]
            np.testing.assert_array_equal(inner[:, 1::3, 1::3], DIGITS.x_test[:, 0])
        assert fitted.x_test.sum(dtype=np.float64) == pytest.approx(
            27 * DIGITS.x_test.sum(dtype=np.float64)
        )
        np.testing.assert_array_equal(fitted.y_train, DIGITS.y_train)

    def test_reduces_by_means_of_blocks(self) -> None:
        x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
        np.testing.assert_array_equal(fit_images(x, (1, 2, 2))[0, 0], [[2.5, 4.5], [10.5, 12.5]])

    @given(side=st.integers(1, 40), wanted=st.integers(1, 40))
    def test_a_grey_sheet_stays_grey_within(self, side: int, wanted: int) -> None:
        sheet = np.full((1, 1, side, side), 0.5, np.float32)
        got = fit_images(sheet, (1, wanted, wanted))
        assert got.shape == (1, 1, wanted, wanted)
        assert got[0, 0, wanted // 2, wanted // 2] == np.float32(0.5)
        assert set(np.unique(got)) <= {np.float32(0), np.float32(0.5)}

    def test_colours_become_grey_but_not_two(self) -> None:
        x = np.stack([np.full((4, 4), value, np.float32) for value in (0.0, 0.3, 0.9)])[None]
        np.testing.assert_allclose(fit_images(x, (1, 4, 4)), 0.4, rtol=1e-6)
        with pytest.raises(ValueError, match="3 channels do not give 2"):
            fit_images(x, (2, 4, 4))

    @pytest.mark.parametrize("shape", [(28, 28), (1, 0, 28), ()])
    def test_refuses_a_shape_that_is_none(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(DatasetError, match="channels, height, width"):
            DIGITS.fitted(shape)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ("digits", r"the name 'digits'; give datasets\.load\('digits'\)\.fitted\(\(1, 28, 28\)\)"),
        (None, r"dataset is None; give a datasets\.Dataset, such as .*\.fitted\(\(1, 28, 28\)\)"),
        (DIGITS.x_train, "dataset is of type ndarray; give"),
        (DIGITS, r"digits has images \(1, 8, 8\), lenet5 takes \(1, 28, 28\); use dataset\.fitted"),
    ],
)
def test_what_a_model_cannot_learn_from_is_refused(dataset: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_dataset(dataset, "lenet5", [1, 28, 28])


def test_what_it_can_learn_from_is_given_back() -> None:
    fitted = DIGITS.fitted((1, 28, 28))
    assert check_dataset(fitted, "lenet5", [1, 28, 28]) is fitted
    assert check_dataset(DIGITS) is DIGITS


def test_standardised_pixels_have_the_mean_and_variance_of_those_to_train_on() -> None:
    made = DIGITS.standardised()
    assert abs(made.x_train.mean(dtype=float)) < 1e-6
    assert abs(made.x_train.std(dtype=float) - 1) < 1e-6
    mean, deviation = DIGITS.x_train.mean(dtype=float), DIGITS.x_train.std(dtype=float)
    np.testing.assert_allclose(made.x_test * deviation + mean, DIGITS.x_test, atol=1e-6)
    assert made.x_train.dtype == np.float32


def test_images_of_one_colour_are_standardised_to_zero() -> None:
    x, y = np.full((2, 1, 3, 3), 0.1, np.float32), np.zeros(2, np.int64)
    assert not Dataset("own", x, y, x, y, ("a",)).standardised().x_train.any()
