"""The loops of ``walk``, compiled. Each works on a range of queries, for every resample."""

from __future__ import annotations

import numpy as np

from equipoise.kernels._numba import compiler

_jit = compiler(nogil=True)


@_jit
def count_top(start, stop, order, groups, times, places, counts, left):
    """Write the counts (resamples, queries, groups) of the first ``places``.

    left: how many places the list did not fill. The multiplicities of the first images of a list
    sum to about their number. So the first m images, less a few deviations, are almost surely taken
    whole: they are sorted by group beforehand, and summed without a decision per step. Only the
    rest is walked.
    """
    smallest = places.min()
    sure = min(order.shape[1], max(0, smallest - 5 * int(smallest**0.5)))
    by_group = np.empty(sure, np.int32)
    ends = np.empty(counts.shape[2], np.int64)
    for q in range(start, stop):
        end = 0
        for g in range(counts.shape[2]):
            for j in range(sure):
                if groups[order[q, j]] == g:
                    by_group[end] = order[q, j]
                    end += 1
            ends[g] = end
        for r in range(times.shape[0]):
            free, begin = places[r], 0
            for g in range(counts.shape[2]):
                taken = 0
                for j in range(begin, ends[g]):
                    taken += times[r, by_group[j]]
                counts[r, q, g] = taken
                begin = ends[g]
                free -= taken
            first = sure
            if free < 0:  # they were not: walk it all
                free, first = places[r], 0
                counts[r, q, :] = 0
            for j in range(first, order.shape[1]):
                if free <= 0:
                    break
                image = order[q, j]
                if groups[image] >= 0:
                    taken = min(times[r, image], free)
                    counts[r, q, groups[image]] += taken
                    free -= taken
            left[r, q] = free


@_jit
def divergence(
    start, stop, order, groups, log_shares, times, places, discount, by_count, out, left
):
    """Write the NDKL into out.

    With c_g of i places held, KL = sum_g (c_g log c_g - c_g log share_g) / i - log i: one term
    changes a step.
    """
    for q in range(start, stop):
        for r in range(times.shape[0]):
            held = [0] * log_shares.shape[1]
            free, i, entropy, total, weight = places[r], 0, 0.0, 0.0, 0.0
            for j in range(order.shape[1]):
                if free <= 0:
                    break
                image = order[q, j]
                group = groups[image]
                for _ in range(min(times[r, image], free)):
                    held[group] += 1
                    entropy += (
                        by_count[held[group]] - by_count[held[group] - 1] - log_shares[r, group]
                    )
                    i += 1
                    free -= 1
                    total += discount[i - 1] * (entropy - by_count[i]) / i
                    weight += discount[i - 1]
            left[r, q] = free
            out[r, q] = total / weight
