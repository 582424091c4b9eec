"""The resolver alone: for any order of changes and steps, units are told right and all of it."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.vca import relations
from lab.vca.applications import elect, remove_unit
from lab.vca.resolver import UnpackedCharm, config_hash, next_step, record_done
from lab.vca.state import Application, Endpoint, HookInfo, ModelDocument, Operation, Unit

ENDS = {
    "a": Endpoint(app="a", name="db", role="provider", interface="i"),
    "b": Endpoint(app="b", name="db", role="requirer", interface="i"),
}
VIEW = UnpackedCharm(config_digest=config_hash({}), endpoints=frozenset({"db", "ring"}))


class World:
    """A model of two applications, stepped by hand, and what each unit was told."""

    def __init__(self) -> None:
        self.document = ModelDocument(uuid="u")
        self.told: dict[str, list[HookInfo]] = defaultdict(list)
        for app in ENDS:
            self.document.apps[app] = Application(name=app, charm_name=app, charm_revision=0)
            end = Endpoint(app=app, name="ring", role="peer", interface="p")
            relations.create(self.document, [end])
        self.serial = 0

    def add_unit(self, app: str) -> None:
        number = self.document.apps[app].next_unit
        self.document.apps[app].next_unit += 1
        unit = Unit(name=f"{app}/{number}", app=app, number=number, machine=0, address="252.0.0.1")
        self.document.units[unit.name] = unit
        elect(self.document)

    def relate(self) -> None:
        if not any(not r.is_peer for r in self.document.relations.values()):
            relations.create(self.document, [ENDS["a"], ENDS["b"]])

    def unrelate(self) -> None:
        for relation in list(self.document.relations.values()):
            if not relation.is_peer:
                relation.life = "dying"
                relations.drop_if_over(self.document, relation)

    def write(self, pick: int, by_app: bool) -> None:
        bags = [
            bag
            for relation in self.document.relations.values()
            for bag in (relation.apps if by_app else relation.units).values()
        ]
        if bags:
            self.serial += 1
            bags[pick % len(bags)].replace({"n": str(self.serial)})

    def remove(self, pick: int, force: bool) -> None:
        units = list(self.document.units.values())
        if not units:
            return
        unit = units[pick % len(units)]
        if force:
            remove_unit(self.document, unit.name)
        else:
            unit.life = "dying"
            for relation in self.document.relations.values():
                if unit.name in relation.in_scope and unit.name not in relation.departing:
                    relation.departing.append(unit.name)
            elect(self.document)

    def settle(self, pick: int) -> None:
        for turn in range(2000):
            if not self.step(pick + turn):
                return
        raise AssertionError("the model never comes to rest")

    def step(self, pick: int) -> bool:
        """Let one unit do one step; return whether any could."""
        units = list(self.document.units.values())
        for offset in range(len(units)):
            unit = units[(pick + offset) % len(units)]
            todo = next_step(self.document, unit, VIEW)
            if todo is None:
                continue
            if todo.hook is not None:
                self.told[unit.name].append(todo.hook)
                record_done(self.document, unit, todo.hook, VIEW.config_digest)
            elif todo.kind == "unpack":
                unit.charm_revision = 0
            elif todo.kind == "enter-scope":
                assert todo.relation_id is not None
                relations.enter_scope(self.document.relations[todo.relation_id], unit)
            elif todo.kind == "resign":
                unit.leader = False
            elif todo.kind == "die":
                remove_unit(self.document, unit.name)
            else:
                raise AssertionError(todo)
            return True
        return False


change = st.one_of(
    st.tuples(st.just("settle"), st.integers(0, 9)),
    st.tuples(st.just("add"), st.sampled_from("ab")),
    st.tuples(st.just("relate")),
    st.tuples(st.just("unrelate")),
    st.tuples(st.just("write"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("step"), st.integers(0, 9)),
    st.tuples(st.just("step"), st.integers(0, 9)),
    st.tuples(st.just("step"), st.integers(0, 9)),
)


@settings(max_examples=300)
@given(st.lists(change, max_size=60), st.integers(0, 9))
def test_any_history_is_told_in_order_and_completely(
    history: list[tuple[object, ...]], pick: int
) -> None:
    world = World()
    world.add_unit("a")
    world.add_unit("b")
    for name, *arguments in history:
        method = {"add": "add_unit"}.get(str(name), str(name))
        getattr(world, method)(*arguments)
    world.settle(pick)
    for unit, result in world.told.items():
        _check_order(unit, result)
    _check_complete(world)


def _check_order(unit: str, answer: list[HookInfo]) -> None:
    kinds = [info.kind for info in answer]
    assert kinds[0] == "install"
    assert kinds.count("install") == 1
    assert kinds.count("start") <= 1
    if "start" in kinds:
        before = kinds[: kinds.index("start")]
        assert before[-1] == "config-changed"
        assert set(before) <= {
            "install",
            "relation-created",
            "leader-elected",
            "leader-settings-changed",
            "config-changed",
        }
    if "stop" in kinds:
        assert set(kinds[kinds.index("stop") + 1 :]) <= {"remove"}
    joined: dict[int, set[str]] = defaultdict(set)
    known: set[int] = set()
    for index, info in enumerate(answer):
        number = info.relation_id
        if number is None:
            continue
        if info.kind == "relation-created":
            assert number not in known
            known.add(number)
        elif info.kind == "relation-joined":
            assert number in known
            assert info.remote_unit not in joined[number]
            assert info.remote_unit != unit
            joined[number].add(info.remote_unit)
            # The next hook of that relation; one of another may come between, as in Juju.
            following = next((n for n in answer[index + 1 :] if n.relation_id == number), None)
            if following is not None:
                assert following.kind == "relation-changed"
                assert following.remote_unit == info.remote_unit
        elif info.kind == "relation-changed" and info.remote_unit:
            assert info.remote_unit in joined[number]
        elif info.kind == "relation-departed":
            joined[number].remove(info.remote_unit)
        elif info.kind == "relation-broken":
            assert not joined[number], "broken comes after the last departed"
            known.discard(number)


def _check_complete(world: World) -> None:
    document = world.document
    for unit in document.units.values():
        assert unit.life == "alive"
        assert unit.operation == Operation()
        for number, seen in unit.relations.items():
            relation = document.relations[number]
            assert relation.life == "alive"
            assert seen.members == relations.remote_members(relation, unit)
            other = relation.other_app(unit.app)
            assert seen.apps.get(other, 0) == relation.apps[other].version
    for relation in document.relations.values():
        expected = {u.name for u in document.units.values() if relation.involves(u.app)}
        assert set(relation.in_scope) == expected
        assert not relation.departing
    for app in document.apps.values():
        units = document.units_of(app.name)
        assert [u.name for u in units if u.leader] == ([app.leader] if units else [])
