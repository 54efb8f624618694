"""The algorithms once more, as a textbook would write them: plain loops over plain numpy.

Nothing here is imported from the library. Slow and obvious is the point: where the library and these
disagree, one of them is wrong.
"""

from itertools import combinations

import numpy as np

MASK = (1 << 64) - 1


def features(states, actions, n_actions):
    """Return bias, states and pairwise products, in the block of the action, (n, d)."""
    rows = []
    for state, action in zip(states, actions, strict=True):
        inner = [1.0, *state, *(a * b for a, b in combinations(state, 2))]
        row = np.zeros((n_actions, len(inner)))
        row[action] = inner
        rows.append(row.ravel())
    return np.array(rows)


def expected_features(states, chances):
    """Return E_π φ(s, ·), (n, d)."""
    n, count = chances.shape
    every = [features(states, np.full(n, action), count) for action in range(count)]
    return sum(chances[:, action, None] * every[action] for action in range(count))


class Problem:
    """A log as plain arrays, a policy as its probabilities, and everything computed from them."""

    def __init__(self, log, chances_of, gamma, *, ridge=1e-6):
        self.log, self.gamma, self.ridge = log, gamma, ridge
        self.count = log["n_actions"]
        self.phi = features(log["states"], log["actions"], self.count)
        after = expected_features(log["next_states"], chances_of(log["next_states"]))
        self.after = after * ~log["terminated"][:, None]
        first = log["states"][log["starts"]]
        self.first, self.first_chances = first, chances_of(first)
        self.start = expected_features(first, self.first_chances)  # (E, d)
        self.taken = chances_of(log["states"])[np.arange(len(self.phi)), log["actions"]]

    def rows(self, episodes):
        """Return the rows of some episodes."""
        return np.concatenate([np.flatnonzero(self.log["episode"] == each) for each in episodes])

    def gram(self, rows):
        phi = self.phi[rows]
        return phi.T @ phi + self.ridge * len(rows) * np.eye(phi.shape[1])

    def lstd(self, rows):
        """Return θ = (Σφ(φ − γφ')ᵀ + λI)⁻¹ Σφr."""
        phi, after = self.phi[rows], self.after[rows]
        matrix = self.gram(rows) - self.gamma * phi.T @ after
        return np.linalg.solve(matrix, phi.T @ self.log["rewards"][rows])

    def fqe(self, folds, iterations, *, backup=None):
        """Return θ of each fold after some Bellman updates; `backup` combines the folds' targets."""
        inverse = [np.linalg.inv(self.gram(rows)) for rows in folds]
        moments = [self.phi[rows].T @ self.log["rewards"][rows] for rows in folds]
        theta = [a @ b / (1 - self.gamma) for a, b in zip(inverse, moments, strict=True)]
        for _ in range(iterations):
            new = []
            for k, rows in enumerate(folds):
                each = np.array([self.after[rows] @ other for other in theta])
                value = each[k] if backup is None else backup(each)
                target = self.log["rewards"][rows] + self.gamma * value
                new.append(inverse[k] @ (self.phi[rows].T @ target))
            theta = new
        return theta

    def radius(self, rows):
        """Return the spectral radius of θ ↦ γ (Σφφᵀ + λI)⁻¹ Σφφ'ᵀ θ: above 1, FQE has no limit."""
        step = np.linalg.solve(self.gram(rows), self.phi[rows].T @ self.after[rows])
        return self.gamma * np.abs(np.linalg.eigvals(step)).max()

    def mis(self, rows):
        """Return mean(w r), w = n φᵀ A⁻ᵀ g."""
        phi, after = self.phi[rows], self.after[rows]
        matrix = self.gram(rows) - self.gamma * phi.T @ after
        weights = len(rows) * phi @ np.linalg.solve(matrix.T, self.start.mean(axis=0))
        return float(np.mean(weights * self.log["rewards"][rows]))

    def dr(self, parts):
        """Return the doubly robust value of a fold that is cut in two parts."""
        total, size = 0.0, sum(len(part) for part in parts)
        for own, other in (parts, parts[::-1]):
            theta = self.lstd(other)
            matrix = self.gram(other) - self.gamma * self.phi[other].T @ self.after[other]
            direction = len(other) * np.linalg.solve(matrix.T, self.start.mean(axis=0))
            residual = self.log["rewards"][own] + (
                self.gamma * self.after[own] @ theta - self.phi[own] @ theta
            )
            total += len(own) * float(self.start.mean(axis=0) @ theta)
            total += float(np.sum(self.phi[own] @ direction * residual))
        return total / size

    def ips(self, *, normalised=False):
        """Return mean(w r), or Σwr/Σw, with w = π/μ."""
        weights = self.taken / self.log["propensity"]
        product = weights * self.log["rewards"]
        return float(product.sum() / weights.sum()) if normalised else float(product.mean())

    def fqi(self, folds, iterations, ridge, *, backup=None):
        """Return θ of each fold after some updates towards r + γ max_a Q(s', a)."""
        states, alive = self.log["next_states"], ~self.log["terminated"]
        acts = sorted(set(self.log["actions"].tolist()))
        ahead = [features(states, np.full(len(states), a), self.count) for a in acts]
        inverse, moments = [], []
        for rows in folds:
            phi = self.phi[rows]
            penalty = ridge * len(rows) * np.eye(phi.shape[1])
            inverse.append(np.linalg.inv(phi.T @ phi + penalty))
            moments.append(phi.T @ self.log["rewards"][rows])
        theta = [a @ b / (1 - self.gamma) for a, b in zip(inverse, moments, strict=True)]
        for _ in range(iterations):
            new = []
            for k, rows in enumerate(folds):
                each = np.array(
                    [[part[rows] @ one for part in ahead] for one in theta]
                )  # (K, A, m)
                own = each[k] if backup is None else backup(each)
                target = self.gamma * own.max(axis=0) * alive[rows]
                new.append(inverse[k] @ (moments[k] + self.phi[rows].T @ target))
            theta = new
        return theta

    def value(self, theta):
        """Return E φ(s₀, π)ᵀθ."""
        return float(self.start.mean(axis=0) @ theta)

    def median_value(self, thetas):
        """Return E π(a|s₀) · median of the members' Q(s₀, a)."""
        together = median(np.array([self.action_values(each, self.first) for each in thetas]))
        return float((self.first_chances * together).sum(axis=1).mean())

    def action_values(self, theta, states):
        """Return Q at every action, (n, A)."""
        n = len(states)
        return np.column_stack(
            [features(states, np.full(n, a), self.count) @ theta for a in range(self.count)]
        )


def median(values):
    """Return the median over the first axis."""
    ordered = np.sort(values, axis=0)
    middle = len(values) // 2
    return ordered[middle] if len(values) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


# Which episodes are in which fold: by a keyed hash of their labels.


def mixed(bits):
    """Return SplitMix64 of a 64-bit number."""
    bits = (bits + 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def label_hash(label, key):
    """Return 64 bits for a label."""
    if isinstance(label, str):
        result = mixed(key)
        for letter in label:
            result = mixed(result ^ ord(letter))
        return result
    return mixed(key ^ (int(label) & MASK))


def dealt(labels, key):
    """Return labels in the order in which they are dealt."""
    return sorted(labels, key=lambda label: label_hash(label, key))


def split(log, folds, seed):
    """Return the episodes of each fold, whole groups at a time, and the generator for the fit."""
    first, second = np.random.default_rng(seed).spawn(2)
    order = dealt(sorted(set(log["groups"])), int(first.integers(2**63)))
    fold = {label: place % folds for place, label in enumerate(order)}
    episodes = [
        [e for e, label in enumerate(log["groups"]) if fold[label] == k] for k in range(folds)
    ]
    return episodes, second


def halves(log, episodes, rng):
    """Return a fold's episodes in two parts, as doubly robust estimates cut them."""
    own = {log["groups"][e] for e in episodes}
    order = dealt(sorted(set(log["groups"])), int(rng.integers(2**63)))
    part = {label: place % 2 for place, label in enumerate(each for each in order if each in own)}
    return [[e for e in episodes if part[log["groups"][e]] == number] for number in (0, 1)]


# Random logs.


def random_log(seed, *, bandit=False):
    """Return a log as plain arrays: any lengths, ends, labels, groups and tails."""
    rng = np.random.default_rng(seed)
    count, p = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    episodes = int(rng.integers(25, 45)) * (3 if bandit else 1)
    lengths = np.ones(episodes, int) if bandit else rng.integers(1, 9, size=episodes)
    n = int(lengths.sum())
    episode = np.repeat(np.arange(episodes), lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    ends = np.zeros(n, dtype=bool)
    ends[np.cumsum(lengths) - 1] = True
    states, next_states = rng.standard_normal((2, n, p)) * rng.choice([0.1, 1.0, 10.0])
    mu = (rng.dirichlet(np.full(count, 5.0)) + 2 / count) / 3
    actions = rng.choice(count, size=n, p=mu)
    actions[:count] = np.arange(count)  # each is tried
    labels = [f"e{rng.integers(10**6)}-{e}" for e in range(episodes)]
    if rng.random() < 0.5:
        labels = [int(e) for e in rng.permutation(10 * episodes)[:episodes]]
    grouped = bool(rng.random() < 0.3)
    groups = [f"g{e // 2}" for e in range(episodes)] if grouped else labels
    return {
        "n_actions": count,
        "states": states,
        "actions": actions,
        "rewards": rng.standard_t(1.5, size=n) * rng.choice([1e-3, 1.0, 1e4]) + rng.normal(),
        "next_states": next_states,
        "terminated": ends & (rng.random(n) < rng.choice([0.0, 0.5, 1.0])),
        "propensity": mu[actions],
        "episode": episode,
        "starts": starts,
        "labels": labels,
        "grouped": grouped,
        "groups": groups,
    }


def random_policy(seed, log):
    """Return a policy's probabilities: of one action, or of a softmax, in states (n, p)."""
    rng = np.random.default_rng([seed, 1])
    slopes = rng.standard_normal((log["states"].shape[1], log["n_actions"]))
    slopes /= np.abs(log["states"]).mean()
    certain = bool(rng.random() < 0.5)

    def chances(states):
        scores = states @ slopes
        if certain:
            return np.eye(log["n_actions"])[scores.argmax(axis=1)]
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        return likely / likely.sum(axis=1, keepdims=True)

    return chances, certain
