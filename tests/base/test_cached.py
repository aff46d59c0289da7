"""Values that are computed once."""

from dataclasses import dataclass

from vbsvm.base.cached import cached_property


@dataclass(frozen=True)
class Counted:
    calls: list

    @cached_property
    def answer(self):
        """How often it was asked for."""
        self.calls.append(1)
        return len(self.calls)


def test_a_value_is_computed_once_for_each_object():
    one, other = Counted([]), Counted([1, 1])
    assert [one.answer, one.answer, other.answer, one.answer] == [1, 1, 3, 1]
    assert vars(one)["answer"] == 1


def test_a_value_may_be_handed_on():
    one = Counted([])
    vars(one)["answer"] = 7
    assert one.answer == 7
    assert one.calls == []


def test_the_class_has_its_docstring():
    assert Counted.answer.__doc__ == "How often it was asked for."
