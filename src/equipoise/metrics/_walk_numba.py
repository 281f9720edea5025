"""The loops of ``walk``, compiled. Each works on a range of queries, for every resample."""

from __future__ import annotations

import numpy as np

from equipoise.kernels._numba import compiler

COPIES = 4  # of an image that are written without asking how many there are

_jit = compiler(nogil=True)


@_jit
def _by_group(images, groups, sorted_images, ends):
    """Sort the first images of a list by group; write where each group ends.

    Every image is written, and the next one overwrites it where it is of another group: which group
    an image has cannot be foreseen. ``sorted_images`` has one place more for that.
    """
    end = 0
    for g in range(ends.size):
        for j in range(sorted_images.size - 1):
            sorted_images[end] = images[j]
            end += groups[images[j]] == g
        ends[g] = end


@_jit
def count_top(start, stop, order, groups, times, places, counts, left):
    """Write the counts (resamples, queries, groups) of the first ``places``.

    left: how many places the list did not fill. The multiplicities of the first images of a list
    sum to about their number. So the first m images, less a few deviations, are almost surely taken
    whole: they are sorted by group beforehand, and summed without a decision per step. Only the
    rest is walked. One resample after the other, so that its multiplicities stay in the cache.
    """
    smallest = places.min()
    sure = min(order.shape[1], max(0, smallest - 5 * int(smallest**0.5)))
    by_group = np.empty((stop - start, sure + 1), np.int32)
    ends = np.empty((stop - start, counts.shape[2]), np.int64)
    for q in range(start, stop):
        _by_group(order[q], groups, by_group[q - start], ends[q - start])
    for r in range(times.shape[0]):
        drawn = times[r]
        for q in range(start, stop):
            free, begin = places[r], 0
            for g in range(counts.shape[2]):
                taken = 0
                for j in range(begin, ends[q - start, g]):
                    taken += drawn[by_group[q - start, j]]
                counts[r, q, g] = taken
                begin = ends[q - start, g]
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
                    taken = min(drawn[image], free)
                    counts[r, q, groups[image]] += taken
                    free -= taken
            left[r, q] = free


@_jit
def _fill(images, groups, drawn, most, placed):
    """Write the group of each of the first ``most`` places; return how many were filled.

    How often an image was drawn cannot be foreseen, so that a loop over it would be guessed wrong
    by the processor each time. A few copies are written whatever the number is, and the next image
    overwrites those too many.
    """
    filled = 0
    for image in images:
        if filled >= most:
            break
        group, count = groups[image], drawn[image]
        for c in range(COPIES):
            placed[filled + c] = group
        for c in range(COPIES, min(count, most - filled)):
            placed[filled + c] = group
        filled += count
    return min(filled, most)


@_jit
def divergence(
    start, stop, order, groups, log_shares, times, places, discount, by_count, out, left
):
    """Write the NDKL into out.

    With c_g of i places held, KL = sum_g (c_g log c_g - c_g log share_g) / i - log i: one term
    changes a step. One resample after the other, so that its multiplicities stay in the cache.
    """
    placed = np.empty(places.max() + COPIES, np.int64)
    held = np.empty(log_shares.shape[1], np.int64)
    gains = by_count[1:] - by_count[:-1]
    weights = np.zeros(discount.size + 1)
    for i in range(discount.size):
        weights[i + 1] = weights[i] + discount[i]
    for r in range(times.shape[0]):
        logs = log_shares[r]
        for q in range(start, stop):
            filled = _fill(order[q], groups, times[r], places[r], placed)
            held[:] = 0
            entropy, total = 0.0, 0.0
            for i in range(filled):
                group = placed[i]
                entropy += gains[held[group]] - logs[group]
                held[group] += 1
                total += discount[i] * (entropy - by_count[i + 1]) / (i + 1)
            left[r, q] = places[r] - filled
            out[r, q] = total / weights[filled]
