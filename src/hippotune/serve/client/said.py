"""What a session says to its server, and what of it is still so: the next server is told that again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hippotune.errors import HippoError
from hippotune.protocol import events
from hippotune.protocol.events import Event
from hippotune.serve import messages

# A message and a batch of them have at most this many requests: bodies are bounded.
MOST_REQUESTS = 2000


def messages_of(event: Event, repeated: bool = False) -> list[messages.Message]:
    """Write an event of a tuner's side; a large group takes several messages."""
    match event:
        case events.GroupSubmitted(requests):
            asks = [
                messages.Ask(
                    each.id,
                    each.trial,
                    each.config.to_json(),
                    each.step,
                    each.reports,
                    each.isolation_key,
                    each.keep,
                )
                for each in requests
            ]
            return _submissions(asks, repeated)
        case events.RequestWithdrawn(request):
            return [messages.Withdraw(request)]
        case events.WorthChanged(worths):
            return [messages.Rate({request: messages.number(worth) for request, worth in worths.items()})]
        case events.BestChanged(_, best):
            return [messages.Rank(tuple((config.to_json(), step, key) for config, step, key in best))]
        case events.MetricsRequired(metrics):
            return [messages.Require(tuple(sorted(metrics)))]
        case events.ConfigsForeseen(configs, step):
            return [messages.Foresee(tuple(config.to_json() for config in configs), step)]
        case events.BranchesForeseen(config, steps):
            return [messages.ForeseeBranches(config.to_json(), steps)]
        case events.DeadlineSet(_, at, worker_seconds):
            return [messages.Limit(at, worker_seconds)]
        case events.WidthChanged(policy):
            return [messages.Widen(None if policy is None else messages.Policy.of(policy))]
        case _:
            raise HippoError(f"{event!r} is nothing that a tuner says to a server")


def _submissions(asks: Sequence[messages.Ask], repeated: bool = False) -> list[messages.Message]:
    starts = range(0, len(asks), MOST_REQUESTS)
    return [messages.Submit(tuple(asks[at : at + MOST_REQUESTS]), repeated) for at in starts]


class Said:
    """What is still so of all that was said."""

    def __init__(self) -> None:
        self.has_begun = False
        self._required: set[str] = set()
        self._widened: messages.Widen | None = None
        self._branches: dict[str, messages.ForeseeBranches] = {}
        self._requests: dict[int, messages.Ask] = {}
        self._limit: messages.Limit | None = None
        self._rank: messages.Rank | None = None
        self._tune: messages.TuningBegan | None = None

    def add(self, message: messages.Message) -> None:
        """Something is said."""
        match message:
            case messages.Submit(requests):
                self._requests.update((each.id, each) for each in requests)
            case messages.Withdraw(request):
                self._requests.pop(request, None)
            case messages.Require(metrics):
                self._required.update(metrics)
            case messages.Widen():
                self._widened = message
            case messages.ForeseeBranches(config):
                self._branches[repr(config)] = message
            case messages.Limit():
                self._limit = message
            case messages.Rank():
                self._rank = message
            case messages.TuningBegan():
                self._tune = message
            case messages.TuningEnded():
                self._tune = None
            case messages.FirstGroupSent():
                self.has_begun = True
            case _:
                pass

    def answered(self, request: int) -> None:
        """A request has its last answer; one that keeps a checkpoint stays until it is withdrawn."""
        ask = self._requests.get(request)
        if ask is not None and not ask.keep:
            del self._requests[request]

    def again(self, tuners: int, questions: Iterable[messages.Message]) -> list[messages.Message]:
        """Return what is to be said to a server that knows nothing; `questions` wait for their answers."""
        said: list[messages.Message] = [messages.TunerBegins()] * tuners
        if self._tune is not None:
            said.append(self._tune)
        if self._required:
            said.append(messages.Require(tuple(sorted(self._required))))
        said += [each for each in (self._widened, self._limit, self._rank) if each is not None]
        said += self._branches.values()
        said += _submissions(list(self._requests.values()))
        if self.has_begun:
            said.append(messages.FirstGroupSent())
        return [*said, *questions]
