"""Worlds that were written before anybody looked at how the default decides, for `outside.py`.

The first four leave out of the log what matters (they are not Markov in what is logged), the others
log all of it; `TiredShown` is the first one with its hidden column.
"""

from __future__ import annotations

import numpy as np

from benchmarks.parts.worlds import World


def _chance(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))


def _unit_lognormal(rng: np.random.Generator, sigma: float, n: int) -> np.ndarray:
    return np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


class TiredChurn(World):
    """Subscribers tire of mails and calls and leave; how tired they are is not logged."""

    actions, gamma, episodes, horizon, epsilon, shown = 3, 0.95, 250, 30, 0.5, 2
    tiring, lift = np.array([0.0, 0.35, 0.9]), np.array([0.0, 0.5, 1.0])

    def start(self, n, rng):
        """Draw months of tenure, usage and a little tiredness."""
        return np.column_stack([rng.integers(0, 36, n), rng.gamma(3, 1 / 3, n), rng.random(n) / 2])

    def observe(self, z):
        """Return what is logged: tenure and usage, or all."""
        return z[:, : self.shown]

    def step(self, z, a, rng):
        """Pay by usage, perhaps buy more, perhaps leave."""
        tenure, usage, tired = z.T
        n = len(usage)
        left = rng.random(n) < _chance(-4.6 - 0.02 * tenure + 1.4 * tired - 0.4 * usage)
        buys = 12 * _chance(-2.2 + self.lift[a] * (1.2 - tired) + 0.5 * usage)
        mean = 4 * usage + buys - np.array([0.0, 0.1, 1.2])[a]
        self._bought = buys
        usage = np.clip(0.8 * usage + 0.2 + 0.12 * rng.standard_normal(n), 0.05, 4)
        return np.column_stack([tenure + 1, usage, 0.8 * tired + self.tiring[a]]), mean, left

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw purchases around their mean, log-normal."""
        return self._bought * (_unit_lognormal(rng, 1.0, len(z)) - 1)

    def habit(self, states):
        """Call who uses little, mail the others now and then."""
        return np.where(states[:, 1] < 0.8, 2, np.where(states[:, 0] > 18, 0, 1))

    def target(self, states):
        """Call hardly anybody, mail those who use little."""
        return np.where(states[:, 1] < 0.5, 2, np.where(states[:, 1] < 1.1, 1, 0))


class TiredShown(TiredChurn):
    """The same with tiredness logged: Markov."""

    shown = 3


class HiddenWear(World):
    """Presses wear by what they do; a rough vibration is logged, and scrap costs money."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.95, 120, 50, 0.45
    speed, pay = np.array([0.03, 0.10, 0.0]), np.array([1.0, 2.2, -1.5])

    def start(self, n, rng):
        """Draw vibration, orders and wear."""
        wear = rng.uniform(0, 1, n)
        return np.column_stack([wear + 0.6 * rng.standard_normal(n), rng.random(n), wear])

    def observe(self, z):
        """Hide the wear."""
        return z[:, :2]

    def step(self, z, a, rng):
        """Run slowly, fast, or be serviced."""
        _, orders, wear = z.T
        n = len(wear)
        mean = self.pay[a] * (0.5 + orders) - 2.5 * np.maximum(wear - 0.8, 0) * (a < 2)
        wear = np.where(a == 2, 0.1 * wear, wear + self.speed[a] * rng.gamma(2, 0.5, n))
        orders = np.clip(orders + 0.2 * rng.standard_normal(n), 0, 1)
        shaken = wear + 0.6 * rng.standard_normal(n)
        return np.column_stack([shaken, orders, wear]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with 2.5 degrees of freedom."""
        return 0.7 * rng.standard_t(2.5, len(z))

    def habit(self, states):
        """Service where it shakes."""
        return np.where(states[:, 0] > 1.5, 2, (states[:, 1] > 0.4).astype(int))

    def target(self, states):
        """Service earlier, run slowly more often."""
        return np.where(states[:, 0] > 1.1, 2, (states[:, 1] > 0.6).astype(int))


class Tolerance(World):
    """A medicine against pain loses its effect where it is taken often; tolerance is not logged."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.92, 200, 28, 0.5
    dose = np.array([0.0, 0.5, 1.0])

    def start(self, n, rng):
        """Draw pain, age and tolerance."""
        return np.column_stack([rng.uniform(2, 8, n), rng.uniform(-1, 1, n), rng.random(n) * 0.4])

    def observe(self, z):
        """Hide the tolerance."""
        return z[:, :2]

    def step(self, z, a, rng):
        """Ease the pain as far as tolerance lets, at the price of side effects."""
        pain, age, tolerance = z.T
        n = len(pain)
        eased = 3.0 * self.dose[a] * np.exp(-1.3 * tolerance)
        after = np.clip(0.75 * pain + 1.3 + 0.3 * age - eased + 0.6 * rng.standard_normal(n), 0, 10)
        mean = -pain - 0.8 * self.dose[a] ** 2 * (1 + 0.3 * age)
        tolerance = 0.9 * tolerance + 0.22 * self.dose[a]
        return np.column_stack([after, age, tolerance]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw rare costly complications around their mean."""
        return -(25 * _unit_lognormal(rng, 1.0, len(z)) * (rng.random(len(z)) < 0.01) - 0.25)

    def habit(self, states):
        """Dose by pain."""
        return np.digitize(states[:, 0], [3.0, 6.0])

    def target(self, states):
        """Dose later and higher."""
        return np.where(states[:, 0] > 5.5, 2, (states[:, 0] > 4.0).astype(int))


class HiddenMix(World):
    """A counter whose customers are quick or slow for hours at a time; the log has the line alone."""

    actions, gamma, episodes, horizon = 3, 0.95, 100, 60

    def start(self, n, rng):
        """Draw lines, hours and who comes."""
        return np.column_stack([rng.poisson(3, n), rng.integers(0, 24, n), rng.random(n) < 0.4])

    def observe(self, z):
        """Hide who comes."""
        return z[:, :2]

    def step(self, z, a, rng):
        """Serve with one to three counters, and let others come."""
        line, hour, slow = z.T
        n = len(line)
        served = rng.poisson((1 + a) * np.where(slow > 0, 0.9, 2.4))
        come = rng.poisson(2.2 + 1.3 * np.sin(2 * np.pi * hour / 24))
        mean = -0.9 * (a + 1) - 0.35 * line - 0.5 * slow * (line > 8)
        after = np.clip(line - served, 0, None) + come
        slow = np.where(rng.random(n) < 0.06, 1 - slow, slow)
        after = np.minimum(after, 40)
        return np.column_stack([after, (hour + 1) % 24, slow]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw stable-like noise: Student with two degrees of freedom."""
        return 0.5 * rng.standard_t(2.0, len(z))

    def habit(self, states):
        """Open counters by the line."""
        return np.digitize(states[:, 0], [3, 7])

    def target(self, states):
        """Open them earlier."""
        return np.digitize(states[:, 0], [2, 5])


class Irrigation(World):
    """Soil, forecast and heat: too dry costs yield, too wet drowns it; rare storms cost a lot."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.93, 110, 50, 0.5
    water = np.array([0.0, 0.15, 0.4])

    def start(self, n, rng):
        """Draw soil, forecast and heat."""
        return np.column_stack(
            [rng.uniform(0.2, 0.8, n), rng.random(n), rng.standard_normal(n) * 0.5]
        )

    def step(self, z, a, rng):
        """Water, let it rain, let it dry."""
        soil, forecast, heat = z.T
        n = len(soil)
        rain = np.where(rng.random(n) < 0.5 * forecast, rng.exponential(0.25, n), 0)
        mean = 4 - 9 * np.maximum(0.4 - soil, 0) - 7 * np.maximum(soil - 0.75, 0)
        mean = mean - np.array([0, 0.4, 1.0])[a]
        soil = np.clip(soil + self.water[a] + rain - 0.12 - 0.06 * heat, 0, 1)
        heat = 0.8 * heat + 0.3 * rng.standard_normal(n)
        forecast = np.clip(0.5 * forecast + 0.5 * rng.random(n), 0, 1)
        return np.column_stack([soil, forecast, heat]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw storms around their mean."""
        n = len(z)
        return 0.6 - 30 * _unit_lognormal(rng, 1.2, n) * (rng.random(n) < 0.02)

    def habit(self, states):
        """Water by the soil."""
        return np.where(states[:, 0] < 0.35, 2, (states[:, 0] < 0.55).astype(int))

    def target(self, states):
        """Water by soil, forecast and heat."""
        need = 0.5 - states[:, 0] - 0.2 * states[:, 1] + 0.1 * states[:, 2]
        return np.where(need > 0.15, 2, (need > -0.02).astype(int))


class Battery(World):
    """A battery buys and sells at a price with spikes; the value is kinked at empty and full."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.95, 100, 60, 0.5

    def start(self, n, rng):
        """Draw charge, log-price and hour."""
        return np.column_stack(
            [rng.integers(0, 9, n), 0.4 * rng.standard_normal(n), rng.integers(0, 12, n)]
        )

    def step(self, z, a, rng):
        """Buy, wait or sell one unit."""
        charge, price, hour = z.T
        change = np.where(a == 0, 1, np.where(a == 2, -1, 0))
        moved = np.clip(charge + change, 0, 8) - charge
        mean = -moved * np.exp(price) * (1 + 0.15 * (moved > 0)) - 0.02 * charge
        spike = (rng.random(len(price)) < 0.02) * rng.exponential(0.3, len(price))
        usual = 0.5 * np.sin(2 * np.pi * (hour + 1) / 12)
        price = usual + 0.7 * (price - 0.5 * np.sin(2 * np.pi * hour / 12))
        price = price + 0.25 * rng.standard_normal(len(hour)) + spike
        after = np.column_stack([charge + moved, price, (hour + 1) % 12])
        return after, mean, np.zeros(len(hour), bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with three degrees of freedom."""
        return 0.3 * rng.standard_t(3, len(z))

    def habit(self, states):
        """Buy cheap, sell dear."""
        return np.where(states[:, 1] < -0.3, 0, np.where(states[:, 1] > 0.3, 2, 1))

    def target(self, states):
        """Buy cheaper, sell dearer, and look at the charge."""
        dear = 0.55 - 0.05 * states[:, 0]
        return np.where(states[:, 1] < -0.25, 0, np.where(states[:, 1] > dear, 2, 1))


class Triage(World):
    """Patients get worse or better and may die, which ends the episode at a large skewed cost."""

    actions, gamma, episodes, horizon, epsilon = 2, 0.97, 300, 25, 0.5

    def start(self, n, rng):
        """Draw severity, age and a marker."""
        return np.column_stack([rng.gamma(2, 0.6, n), rng.uniform(-1, 1, n), rng.random(n)])

    def step(self, z, a, rng):
        """Watch or treat."""
        severity, age, marker = z.T
        n = len(severity)
        risk = _chance(-6.5 + 1.1 * severity + 0.4 * age - 0.5 * a)
        died = rng.random(n) < risk
        self._cost = np.where(died, 60 * _unit_lognormal(rng, 0.8, n), 0.0) - 60 * risk
        mean = -0.5 * severity - 1.1 * a - 60 * risk
        pull = np.where(a == 1, 0.7 - 0.15 * marker, 0.97)
        severity = np.clip(pull * severity + 0.25 * rng.gamma(1.0, 1.0, n) * (1 + 0.3 * age), 0, 8)
        marker = np.clip(marker + 0.1 * rng.standard_normal(n), 0, 1)
        return np.column_stack([severity, age, marker]), mean, died

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return the deaths beyond their expectation, and Student noise."""
        return -self._cost + 0.4 * rng.standard_t(3, len(z))

    def habit(self, states):
        """Treat the severe."""
        return (states[:, 0] > 2.2).astype(int)

    def target(self, states):
        """Treat earlier, by age and marker too."""
        return (states[:, 0] + 0.5 * states[:, 1] - 0.4 * states[:, 2] > 1.4).astype(int)


#: What a log leaves out of each world's state.
FOREIGN_HIDDEN: tuple[type[World], ...] = (TiredChurn, HiddenWear, Tolerance, HiddenMix)
FOREIGN_MARKOV: tuple[type[World], ...] = (TiredShown, Irrigation, Battery, Triage)
