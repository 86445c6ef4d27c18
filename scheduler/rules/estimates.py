"""Estimates of durations: a small histogram per action of its successful attempts, with decay.

Buckets are spaced by powers (four to an octave), so that a millisecond and a day are both known to a fifth. This is the
logarithmic histogram of DDSketch (Masson, Rim & Lee, VLDB 2019). Weights decay exponentially with each sample, as the
round-trip estimates of TCP do (Jacobson 1988), and so follow a handler that becomes slower or faster. Histograms of
separate samples add up to the histogram of all, so any number of processes can learn together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from duetime.scheduler.task import Json

ActionKey = tuple[str, str]
"""A tenant and one of its actions."""

MIN_DURATION_S: Final = 0.001
"""Shortest duration in seconds; shorter ones count as this."""

MAX_DURATION_S: Final = 86_400.0
"""Longest duration in seconds; longer ones count in the last bucket."""

BUCKETS_PER_OCTAVE: Final = 4
"""Buckets from one duration to its double; each is 19 % wide."""

BUCKET_COUNT: Final = math.ceil(math.log2(MAX_DURATION_S / MIN_DURATION_S) * BUCKETS_PER_OCTAVE)

HALF_LIFE_SAMPLES: Final = 200
"""Samples after which an older sample counts half."""

MIN_SAMPLES: Final = 5
"""Samples from which a histogram replaces the handler's declaration."""

UNKNOWN_ESTIMATE: Final = timedelta(seconds=1)
"""The estimate of a run when no caller gave one and no earlier run was measured."""

_DECAY_RATIO: Final = 0.5 ** (1 / HALF_LIFE_SAMPLES)
_MAX_BUCKET_WEIGHT: Final = 2 / (1 - _DECAY_RATIO)  # twice what endless samples of one length add up to
_MIN_BUCKET_WEIGHT: Final = 0.0005


@dataclass(frozen=True, slots=True)
class Estimate:
    """The length of a run: less than `p50` in half of all cases, less than `p90` in nine of ten."""

    p50: timedelta
    p90: timedelta


EstimateLookup = Callable[[str, str, timedelta | None], Estimate]
"""Returns the estimate for a tenant, an action and the handler's declared duration (None without one)."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations by bucket, with weights that decay. `samples` counts all that went in, forgotten ones too."""

    weights: Mapping[int, float] = field(default_factory=dict)
    samples: int = 0

    @classmethod
    def empty(cls) -> Histogram:
        return cls()

    def merged(self, seconds: Iterable[float]) -> Histogram:
        """Return the histogram with durations in seconds added, oldest first.

        Negative or infinite ones are left out.
        """
        taken = [each for each in seconds if 0 <= each < math.inf]
        weights: dict[int, float] = {}
        for age, each in enumerate(reversed(taken)):
            bucket = _bucket(each)
            weights[bucket] = weights.get(bucket, 0.0) + _DECAY_RATIO**age
        return self.merged_with(Histogram(weights, len(taken)))

    def merged_with(self, newer: Histogram) -> Histogram:
        """Take in another histogram, whose samples count as newer than all of this one."""
        fading = _DECAY_RATIO**newer.samples
        weights = {bucket: weight * fading for bucket, weight in self.weights.items()}
        for bucket, weight in newer.weights.items():
            weights[bucket] = weights.get(bucket, 0.0) + weight
        return Histogram(weights, self.samples + newer.samples)

    def quantile(self, p: float) -> float | None:
        """Return the duration in seconds that a part `p` (0 to 1) of the samples stayed below; None without samples.

        The result lies in the bucket of the true one, so it is off by 19 % at most; between 1 ms and a day.
        """
        left = min(max(p, 0.0), 1.0) * sum(self.weights.values())
        for bucket in sorted(self.weights):
            weight = self.weights[bucket]
            if left <= weight:
                return _edge(bucket + left / weight)
            left -= weight
        return _edge(max(self.weights) + 1) if self.weights else None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for `from_json`, without negligible weights."""
        kept = {str(bucket): round(weight, 3) for bucket, weight in sorted(self.weights.items())}
        shown = {bucket: weight for bucket, weight in kept.items() if weight > _MIN_BUCKET_WEIGHT}
        return {"per_octave": BUCKETS_PER_OCTAVE, "samples": self.samples, "weights": shown}

    @classmethod
    def from_json(cls, stored: Any) -> Histogram:
        """Read a histogram back. Parts that are not understood are left out: the worst is to learn them again."""
        if not isinstance(stored, Mapping) or stored.get("per_octave") != BUCKETS_PER_OCTAVE:
            return cls()
        found, samples = stored.get("weights"), stored.get("samples")
        weights = dict(_readable(found)) if isinstance(found, Mapping) else {}
        if not weights or not isinstance(samples, int) or samples <= 0:
            return cls()
        return cls(weights, samples)


def estimate_from(histogram: Histogram | None) -> Estimate | None:
    """Return what a histogram of at least `MIN_SAMPLES` successful attempts says; None for fewer."""
    if histogram is None or histogram.samples < MIN_SAMPLES:
        return None
    p50, p90 = histogram.quantile(0.5), histogram.quantile(0.9)
    return None if p50 is None or p90 is None else Estimate(timedelta(seconds=p50), timedelta(seconds=p90))


def estimate(own: timedelta | None, histogram: Histogram | None, declared: timedelta | None) -> Estimate:
    """Return the duration of a run: the caller's own estimate, else the learned, else the declared one, else 1 s."""
    found = estimate_from(histogram) if own is None else None
    if found is not None:
        return found
    known = declared if own is None else own
    span = UNKNOWN_ESTIMATE if known is None else known
    return Estimate(span, span)


def declared_estimate(_tenant: str, _action: str, declared: timedelta | None) -> Estimate:
    """Return the estimate of an action of which nothing is learned."""
    return estimate(None, None, declared)


def _bucket(seconds: float) -> int:
    within = min(max(seconds, MIN_DURATION_S), MAX_DURATION_S)
    place = math.floor(math.log2(within / MIN_DURATION_S) * BUCKETS_PER_OCTAVE)
    return min(place, BUCKET_COUNT - 1)


def _edge(place: float) -> float:
    return float(min(MIN_DURATION_S * 2 ** (place / BUCKETS_PER_OCTAVE), MAX_DURATION_S))


def _readable(weights: Mapping[Json, Json]) -> Iterable[tuple[int, float]]:
    for bucket in range(BUCKET_COUNT):
        weight = weights.get(str(bucket))
        if isinstance(weight, int | float) and 0 < weight <= _MAX_BUCKET_WEIGHT:
            yield bucket, float(weight)
