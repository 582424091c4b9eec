"""Means with confidence intervals, of samples and of ratios of samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and the half-width of its confidence interval (LEVEL); NaN where n is below 2."""

    mean: float
    half: float
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half

    def __str__(self) -> str:
        """Return mean and half-width with as many digits as they tell."""
        digits = 0 if self.mean >= 100 else 1 if self.mean >= 10 else 2 if self.mean >= 0.1 else 3
        spread = "" if math.isnan(self.half) else f" ± {self.half:.{digits}f}"
        return f"{self.mean:.{digits}f}{spread}"


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean with Student's t interval, for independent repetitions.

    Raises:
        ValueError: there is no value.
    """
    if not values:
        raise ValueError("no value")
    middle, n = statistics.fmean(values), len(values)
    if n < 2:
        return Estimate(middle, math.nan, n)
    quantile = float(stats.t.ppf((1 + LEVEL) / 2, n - 1))
    return Estimate(middle, quantile * statistics.stdev(values) / math.sqrt(n), n)


def ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Return the ratio of two means, paired by round.

    Values and baseline of a round were measured close together, so each round gives one ratio; they
    are averaged geometrically (a ratio and its inverse are the same finding), with Student's t
    interval on the logarithms. The half-width is that of the wider, upper side.

    Raises:
        ValueError: lengths differ, or a value is not positive.
    """
    if len(values) != len(baseline) or not values:
        raise ValueError(f"{len(values)} values and {len(baseline)} of the baseline")
    if min(*values, *baseline) <= 0:
        raise ValueError("a ratio needs positive values")
    logs = mean([math.log(a / b) for a, b in zip(values, baseline, strict=True)])
    centre = math.exp(logs.mean)
    return Estimate(centre, math.exp(logs.high) - centre, logs.n)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]
