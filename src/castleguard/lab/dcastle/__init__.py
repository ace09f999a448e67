"""The experiments of dCASTLE's paper (Mohamed, Ghanem, Nagi 2020, section 6), repeated: Adult over several sites.

The 30,162 complete rows go round-robin to n sites, and their information loss is compared for centralised CASTLE, for
dCASTLE, and for sites that do not talk to each other: all three as printed and strict, strict dCASTLE twice, with boxes
shared from k persons on and from the paper's k/n on. As in the paper, dCASTLE has 25 clusters and the others 50, the
loss window is 100, the delay counts rows of a site (so with 10,000 and 8 sites nothing expires before the end, while
centralised rows expire), and of eleven columns those before and after the sensitive one are quasi-identifiers, in the
paper's order.

Losses are means over rows and attributes, and rows that are suppressed, dropped or left undecided count as 1. Engines
without messages are measured before the gate, which in paper mode would refuse rows that the paper publishes; strict
dCASTLE is measured behind it, by what all sites have published together.

By the text of section 6.2 the sub-figures vary QI (a, b), k (c, d), the delay (e, f) and n (g), first with 2 sites and
then with 10; the last ones vary l.

Read `settings` (what is varied), `methods` (who is compared), `runs` (how it is run), `contributions`, `messages`,
`diversity` and `effectiveness` (sections 6.1 to 6.4), and `verdicts` (how statements are judged).
"""

from castleguard.lab.dcastle.experiments import EXPERIMENTS

__all__ = ["EXPERIMENTS"]
