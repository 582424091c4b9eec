"""Means with confidence intervals, of samples and of ratios of samples."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with the ends of its confidence interval (LEVEL), NaN where n is below 2."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def __str__(self) -> str:
        """Return mean and interval, with a number of digits that depends on the mean."""
        digits = 0 if self.mean >= 100 else 1 if self.mean >= 10 else 2 if self.mean >= 0.1 else 3
        if not self.known:
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


def single(value: float) -> Estimate:
    """Return an estimate with a mean and no interval."""
    return Estimate(value, math.nan, math.nan, 1)


def mean(values: Sequence[float]) -> Estimate:
    """Return the mean with Student's t interval, for independent repetitions."""
    if not values:
        raise ValueError("no value")
    middle, n = statistics.fmean(values), len(values)
    if n < 2:
        return single(middle)
    from scipy.special import stdtrit  # Takes long to import, and few programs need it.

    quantile = float(stdtrit(n - 1, (1 + LEVEL) / 2))
    half = quantile * statistics.stdev(values) / math.sqrt(n)
    return Estimate(middle, middle - half, middle + half, n)


def ratio(values: Sequence[float], baseline: Sequence[float]) -> Estimate:
    """Return the ratio of two means, paired by round.

    Value and baseline of a round are measured close together, so each round gives one ratio. The
    result is the geometric mean of the ratios, with Student's t interval on their logarithms. The
    geometric mean treats a ratio and its inverse alike.
    """
    if len(values) != len(baseline) or not values:
        raise ValueError(f"{len(values)} values and {len(baseline)} of the baseline")
    if min(*values, *baseline) <= 0:
        raise ValueError("a ratio needs positive values")
    logs = mean([math.log(a / b) for a, b in zip(values, baseline, strict=True)])
    return Estimate(math.exp(logs.mean), math.exp(logs.low), math.exp(logs.high), logs.n)
