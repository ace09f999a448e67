"""CASTLEGUARD policy: CASTLE on sampled and noisy rows, as printed or with a guarantee that holds.

Robinson, Brown, Hall, Jackson, Kemp, Leeke: CASTLEGUARD, DASC 2020. The paper's claim of differential privacy does not
hold (docs/proofs/castleguard.md); strict mode uses noise for which a claim can be proved.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

from castleguard.algorithms.castle.policy import Castle, Suppression
from castleguard.algorithms.citadel.policy import Citadel
from castleguard.algorithms.facts import MembershipGame, NoiseError, PrintedClaim, Publication, ShardPromise
from castleguard.algorithms.policy import WEIGHTS, WindowUnit
from castleguard.errors import PolicyError
from castleguard.privacy.composition import Loss, compose_advanced, compose_basic, compose_zcdp
from castleguard.privacy.epsilon_shares import Shares, float_above, share_epsilon
from castleguard.privacy.guarantee import SEED, SYSTEM, DifferentialPrivacy, Guarantee
from castleguard.privacy.parameter_fields import parameter
from castleguard.privacy.parameters import least_epsilon
from castleguard.privacy.sdgs import sdgs_delta
from castleguard.schema.roles import Numeric, QuasiIdentifier, Schema
from castleguard.schema.sensitive import Sensitive

if TYPE_CHECKING:
    from castleguard.algorithms.stages import Keys, Stages
    from castleguard.release.encode import Numbers

Clock = Literal["arrivals", "sampled", "time"]

_ONLY_CASTLE = ("max_clusters", "loss_window", "max_reusable", "reusable_age", "l_per", "reading")


@dataclass(frozen=True, kw_only=True)
class Castleguard(Castle):
    """CASTLE on sampled and perturbed rows. `epsilon` (for a whole row) or `phi` (for each column) sets the noise.

    Strict, the default: values are clamped to public bounds and randomised exactly, categories and sensitive values by
    randomised response; every column is locally differentially private, and clustering is post-processing. Paper: the
    published algorithm, with Laplace noise by the range seen so far and raw sensitive values; needs `phi`.
    """

    name: ClassVar[str] = "castleguard"
    summary: ClassVar[str] = "the same on sampled and noisy rows"

    sample_rate: float = parameter(1.0, "Probability that a row is kept.", above=0, most=1, symbol="CASTLEGUARD's beta")
    phi: float | None = parameter(None, "Strict: epsilon of every column. Paper: noise of scale R/phi.", above=0)
    epsilon: float | None = parameter(
        None,
        "Strict: epsilon of a row, split over its columns. Paper: epsilon at which the delta of Theorem 2 is shown.",
        above=0,
    )
    weights: Mapping[str, float] | None = field(default=None, metadata=WEIGHTS)
    rows_per_person: int | None = parameter(
        None, "Strict: maximum number of rows of a person used in any window; the others are left out.", least=1
    )
    window: float | None = parameter(
        None,
        "Window in which the rows of a person are counted.",
        above=0,
        unit="seconds",
        unit_from="window_unit",
        default="the whole stream; memory then grows with the number of persons",
    )
    window_unit: WindowUnit = parameter("seconds", "Unit of the window.")
    dp_delta: float = parameter(
        1e-6,
        "Delta at which composition bounds for the rows of a person are compared; 0 allows only the plain sum.",
        least=0,
        below=1,
    )
    clock: Clock | None = parameter(
        None, "Paper: what the delay counts; time also ends a wait after max_wait seconds.", default="arrivals"
    )
    range_floor: float = parameter(
        0.0, "Paper: smallest range used to scale noise; 0, as printed, leaves the first row without noise.", least=0
    )
    noise: Literal["here", "edge"] = parameter(
        "here", "Strict: edge if rows arrive already randomised by a Randomiser with the same parameters."
    )

    grouping: Literal["castle", "citadel"] = parameter(
        "castle", "Strict: algorithm that groups the noisy rows; citadel forms narrow groups within each release."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.clock == "time" and self.max_wait is None:
            raise PolicyError("clock='time' needs max_wait, the seconds after which a row leaves")
        if self.strict:
            self._check_strict()
        else:
            self._check_paper()

    def _check_strict(self) -> None:
        share_epsilon((), epsilon=self.epsilon, phi=self.phi)  # checks that exactly one is given, above 0
        if self.phi is not None and self.weights is not None:
            raise PolicyError("weights split epsilon: with phi every column has the same share")
        if self.range_floor != 0:
            raise PolicyError("range_floor belongs to mode='paper': strict noise is scaled to the declared range")
        if self.clock not in (None, "arrivals"):
            raise PolicyError(
                f"clock={self.clock!r} belongs to mode='paper': strict mode does not hide whether a row is present"
            )
        if self.rows_per_person is None and self.window is not None:
            raise PolicyError("window needs rows_per_person: how many rows of a person it may hold")
        if self.grouping == "citadel":
            self._check_citadel()

    def _check_citadel(self) -> None:
        defaults = {each.name: each.default for each in fields(self)}
        for name in _ONLY_CASTLE:
            if getattr(self, name) != defaults[name]:
                raise PolicyError(f"{name} belongs to grouping='castle': Citadel does not have it")
        self.citadel  # noqa: B018  # checks the order

    def _check_paper(self) -> None:
        if self.phi is None:
            raise PolicyError("mode='paper' needs phi: its noise has scale R/phi")
        for name in ("weights", "rows_per_person", "window"):
            if getattr(self, name) is not None:
                raise PolicyError(f"{name} belongs to strict mode: the paper does not have it")
        if self.noise == "edge":
            raise PolicyError("noise='edge' belongs to strict mode: the paper's noise needs the whole stream")
        if self.grouping == "citadel":
            raise PolicyError("grouping='citadel' belongs to strict mode: the paper groups by CASTLE")
        if self.sample_rate < 1:
            sdgs_delta(k=self.k, sample_rate=self.sample_rate, epsilon=self._shown_epsilon)

    @property
    def citadel(self) -> Citadel | None:
        """Citadel policy that groups the noisy rows, always without reuse; None: CASTLE groups them."""
        if self.grouping == "castle":
            return None
        return Citadel(
            k=self.k,
            delay=self.delay,
            l=self.l,
            max_wait=self.max_wait,
            suppression="drop" if self.chosen_suppression == "drop" else "root",
            order=self.order,
            diversity=self.diversity,
            c=self.c,
            closeness=self.closeness,
        )

    @property
    def chosen_suppression(self) -> Suppression:
        """Effective suppression."""
        return self.suppression or ("root" if self.strict else "drop")

    @property
    def counted(self) -> str:
        """Unit of the delay, for texts."""
        return "arrivals" if self.chosen_clock == "arrivals" else "sampled rows"

    @property
    def timed(self) -> bool:
        """Whether the stream needs to know the time."""
        return self.max_wait is not None or (self.window is not None and self.window_unit == "seconds")

    @property
    def publishes_values(self) -> bool:
        """Whether published bounds derive from true values: here values are randomised first."""
        return False

    @property
    def draws_noise(self) -> bool:
        """Whether publishing the same rows again spends their budget again."""
        return True

    @property
    def accepts_any_value(self) -> bool:
        """Whether no row is rejected for its values."""
        return self.strict

    @property
    def chosen_clock(self) -> Clock:
        """Effective clock."""
        return self.clock or "arrivals"

    @property
    def _shown_epsilon(self) -> float:
        """Epsilon at which the delta of Theorem 2 is shown."""
        return max(1.0, -math.log1p(-self.sample_rate)) if self.epsilon is None else self.epsilon

    def shares(self, schema: Schema) -> Shares:
        """Strict: epsilon of every randomised column."""
        return share_epsilon(schema.described, epsilon=self.epsilon, phi=self.phi, weights=self.weights)

    def stages(self, schema: Schema, keys: "Keys", *, numbers: "Numbers | None" = None) -> "Stages":
        """Create the stages of a stream."""
        from castleguard.algorithms.castleguard.stages import castleguard_stages

        return castleguard_stages(self, schema, keys, numbers)

    def becomes(self, role: QuasiIdentifier | Sensitive, numbers: "Numbers | None" = None) -> str:
        """Describe in one line how a column is published."""
        if isinstance(role, Sensitive):
            return "one of its declared values, randomised" if self.strict else super().becomes(role, numbers)
        from castleguard.algorithms.words import boxed

        return boxed(role, numbers, closed=not self.strict, randomised=True)

    def noise_errors(self, schema: Schema) -> tuple[NoiseError, ...]:
        """What the noise does to a value of each column on average, over all values alike."""
        if not self.strict:
            return ()
        from castleguard.intake.local import mechanisms

        roles = [*schema.quasi_identifiers, *schema.sensitive]
        found = []
        for role, mechanism in zip(roles, mechanisms(schema, self.shares(schema)), strict=True):
            edges = role.edges if isinstance(role, Numeric) else None
            width = 1.0 if edges is None else float(edges[-1] - edges[0])
            found.append(NoiseError(role.name, mechanism.error * width, edges is None))
        return tuple(found)

    def waits(self, *, endless: bool) -> Iterator[str]:
        """Describe how long a row waits, in sentences."""
        return super().waits(endless=endless) if self.citadel is None else self.citadel.waits(endless=endless)

    def keeps(self) -> Iterator[str]:
        """Describe the state kept in memory besides pending rows, in sentences."""
        if self.rows_per_person is not None and self.window is None:
            yield "Every person is remembered (rows_per_person without a window): memory grows with their number."

    def publication(self, schema: Schema) -> Publication:
        """Checkable properties of a published table."""
        groups = super().publication(schema) if self.citadel is None else self.citadel.publication(schema)
        found = replace(groups, noisy=True, hides_values=self.strict, publishes_labels=self.strict)
        if self.chosen_clock == "arrivals":
            return found
        why = "The delay counts sampled rows, and the file does not show which were sampled."
        return replace(found, delay=None, why_no_delay=why)

    def sharded(self, schema: Schema, *, streaming: bool) -> ShardPromise:
        """Guarantee of independent shards together."""
        return (
            super()
            .sharded(schema, streaming=streaming)
            ._replace(
                counts_persons=self.rows_per_person is not None,
                hides_presence=not self.strict and self.guarantee(schema, seeded=False).privacy is not None,
                has_window=self.window is not None and self.window_unit == "seconds",
            )
        )

    def game(self, schema: Schema) -> MembershipGame:
        """Parameters of the membership game; paper mode adds Theorem 2, which gives a delta for every epsilon."""
        return MembershipGame(
            printed=self._printed_claim if not self.strict and self.sample_rate < 1 else None,
            any_epsilon=True,
            window_rows=self.window if self.window_unit == "rows" else None,
            rows_per_group=self.k / self.sample_rate,
            longest_delay=self.delay,
            l=self.l,
            period=self.window or self.max_wait,
        )

    def _printed_claim(self, epsilon: float | None) -> PrintedClaim:
        rate = self.sample_rate
        chosen = epsilon or self.epsilon or max(1.0, least_epsilon(sample_rate=rate))
        delta = sdgs_delta(k=self.k, sample_rate=rate, epsilon=chosen)
        return PrintedClaim("Theorem 2 of the CASTLEGUARD paper", chosen, delta)

    def fingerprint(self) -> dict[str, object]:
        """Canonical description, serialisable as JSON: equal iff two policies make the same decisions."""
        described = {**super().fingerprint(), "clock": self.chosen_clock}
        if self.grouping == "castle":  # older snapshots do not have this parameter
            del described["grouping"]
        return described

    def spent(self, schema: Schema) -> Loss:
        """Strict: loss of a row, or of a person in one window of the ledger, by the best composition theorem."""
        epsilons = [float(share) for share in self.shares(schema).values()]
        row = float_above(sum(self.shares(schema).values(), Fraction(0)))
        if self.rows_per_person is None:
            return Loss(epsilon=row, dp_delta=0.0, method="basic")
        losses = [compose_basic(epsilon=row, times=self.rows_per_person)]
        if self.dp_delta > 0:
            times, total = self.rows_per_person, self.dp_delta
            losses.append(compose_advanced(epsilon=row, times=times, total_delta=total))
            losses.append(compose_zcdp(epsilon=epsilons, times=times, total_delta=total))
        return min(losses, key=lambda loss: loss.epsilon)

    def guarantee(self, schema: Schema, *, seeded: bool) -> Guarantee:
        """Privacy statement for a stream of this schema."""
        citadel = self.citadel
        groups = (
            super().guarantee(schema, seeded=seeded) if citadel is None else citadel.guarantee(schema, seeded=seeded)
        )
        claim = self._strict_claim(schema, seeded) if self.strict else self._paper_claim(schema, seeded)
        return Guarantee(
            promise=groups.promise,
            limits=tuple(self._notes(schema, seeded)),
            k=self.k,
            l=self.l,
            delay=self.delay,
            max_wait=self.max_wait,
            privacy=claim,
        )

    def _strict_claim(self, schema: Schema, seeded: bool) -> DifferentialPrivacy:
        spent = self.spent(schema)
        unit, horizon = "one row", "the whole stream"
        if self.rows_per_person is not None:
            unit = "all rows of one person"
            if self.window is not None:
                horizon = f"any {self.window:g} {'seconds' if self.window_unit == 'seconds' else 'arrivals'}"
        return DifferentialPrivacy(
            epsilon=spent.epsilon,
            dp_delta=spent.dp_delta,
            unit=unit,
            neighbours=f"{'its' if self.rows_per_person is None else 'their'} values replaced by any others",
            horizon=horizon,
            covered=schema.described,
            uncovered=("that a row is there, whose it is and when it came", *schema.public),
            randomness=SEED if seeded else SYSTEM,
        )

    def _paper_claim(self, schema: Schema, seeded: bool) -> DifferentialPrivacy | None:
        if self.chosen_clock == "arrivals" or self.sample_rate == 1:
            return None
        return DifferentialPrivacy(
            epsilon=0.0,
            dp_delta=self.sample_rate,
            unit="one row",
            neighbours="with and without it",
            horizon="the whole stream",
            covered=(*schema.described, *schema.public),
            uncovered=("when a row is published, and in which part of the output",),
            randomness=SEED if seeded else SYSTEM,
        )

    def _notes(self, schema: Schema, seeded: bool) -> Iterator[str]:
        """Meaning and limits of the guarantee, in sentences."""
        if self.citadel is None:
            yield from self._shape_limits()
        if self.strict:
            yield from self._strict_notes(schema)
        else:
            yield from self._paper_notes()
        if schema.public:
            yield f"Published as they are: {', '.join(schema.public)}."
        if seeded:
            yield "SEEDED: the choices and the order of rows can be predicted; for tests and experiments only."

    def _strict_notes(self, schema: Schema) -> Iterator[str]:
        yield (
            f"Each of {', '.join(schema.described)} is randomised by itself before anything else; groups are made of "
            f"randomised values, so a true value may lie outside its group, and k, l and t refer to published values."
        )
        if self.citadel is not None:
            yield (
                "The promise about releases is void if the same rows are published by a second run, key or policy, and "
                "where a public column tells the rows of a release apart."
            )
            if self.closeness is not None and self.closeness.reference != "public":
                yield (
                    "Closeness is to the rows that left in earlier releases, and is promised at the moment of a "
                    "release only. Rows that leave before the burn-in are suppressed."
                )
        if self.noise == "edge":
            yield "The rows are declared to arrive randomised: the claim is the sender's, and is not checked here."
        yield "The bounds and values in the schema are taken to be public."
        yield "A malformed line of a file is not a row and never gets here: its absence is not covered."
        if self.rows_per_person is None and schema.person is not None:
            yield "A person with n rows has n times this epsilon: rows_per_person would bound it."
        if self.sample_rate < 1:
            yield f"Sampling ({self.sample_rate:g}) is not counted: it shows whether a row was kept."
        yield "Reports and counters are for the operator: they are not covered."

    def _paper_notes(self) -> Iterator[str]:
        if self.sample_rate < 1:
            delta = sdgs_delta(k=self.k, sample_rate=self.sample_rate, epsilon=self._shown_epsilon)
            if self.chosen_clock == "arrivals":
                yield "No differential privacy: a row that is sampled out still moves the clock that others leave by."
            else:
                yield f"That is: with probability {self.sample_rate:g} a row may be exposed fully."
            yield (
                f"The paper's Theorem 2 would give ({self._shown_epsilon:.4g}, {delta:.3g}): NOT claimed, because the "
                f"groups depend on the data and sensitive values are published as they are."
            )
        else:
            yield "No differential privacy: every row is kept."
        yield (
            "Paper mode: noise follows the range seen so far (the first row gets none), k and l refer to perturbed "
            "values, and the gate suppresses groups that the paper would publish below k."
        )
        yield "Not promised: protection of a person whose rows are followed over time."
