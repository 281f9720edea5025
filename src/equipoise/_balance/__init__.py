"""The balanced page: the k images of the largest total score whose mean membership is a target.

Image i has the score ``s_i`` and the membership ``a_i`` in R^r. Wanted are weights w that solve

    max  sum w_i s_i    subject to  0 <= w_i <= 1,  sum w_i = k,  sum w_i (a_i - m) = 0        (P)

and linear programming's duality turns the question into one about r numbers:

    min over lam  of  Phi(lam) = the sum of the k largest of  s_i - lam . (a_i - m)            (D)

Both have the same value. At the minimiser lam* the first k by ``s_i - lam* . a_i`` solve (P), but
for at most r + 1 images that are tied at the edge of the page, which (P) takes in fractions. For
any k images S whatever, ``sum_S s_i <= Phi(lam*) + lam* . sum_S (a_i - m)``: no page that is as
balanced has a larger total score. No I/O, no framework.
"""

from equipoise._balance._one_membership import minimise_one
from equipoise._balance._out_of_reach import InfeasibleTargetError
from equipoise._balance._pages import Minimum, adjusted, first
from equipoise._balance._programme import dual, few, solve, tilt
from equipoise._balance._several_memberships import TIGHT, minimise_many
from equipoise._balance._solutions import Balance, Bounds, Searched

__all__ = [
    "TIGHT",
    "Balance",
    "Bounds",
    "InfeasibleTargetError",
    "Minimum",
    "Searched",
    "adjusted",
    "dual",
    "few",
    "first",
    "minimise_many",
    "minimise_one",
    "solve",
    "tilt",
]
