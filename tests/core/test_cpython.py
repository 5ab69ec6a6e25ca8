"""What agrad knows of the interpreter, each asked of the interpreter that runs."""

import ast
import gc
import itertools
import sys
import threading

import pytest
from support import Interrupt, in_agrad, interrupted

from agrad.core import cpython


def frame_of_caller():
    return cpython.getframe(1)


class Asked:
    """An object whose special methods note where their caller is."""

    def __init__(self):
        self.seen = []

    def note(self, *_):
        frame = cpython.getframe(2)
        self.seen.append((cpython.stores_an_item(frame), cpython.assigns(frame), cpython.adds_in_place(frame)))
        return self

    def __setitem__(self, key, value):
        self.note()

    def __iadd__(self, other):
        return self.note()

    def __add__(self, other):
        return self.note()

    def __mul__(self, other):
        return self.note()


def test_the_instruction_of_a_caller():
    x = Asked()
    x[0] = 1
    x += 1
    x + 1
    x * 2
    x.__setitem__(0, 1)
    x.__add__(1)
    by_item, in_place, plus, times, method, named = x.seen
    assert by_item == (True, True, False)
    assert in_place == (False, True, True)
    assert plus[::2] == (False, False)
    assert times[::2] == (False, False)
    assert method == named == (False, False, False)


def test_an_instruction_has_its_line():
    frame = frame_of_caller()
    code, at = cpython.place_in(frame)
    assert code is test_an_instruction_has_its_line.__code__
    assert cpython.line_number(code, at) in (code.co_firstlineno + 1, code.co_firstlineno + 2)
    without = code.replace(co_linetable=b"")
    assert cpython.line_number(without, at) == code.co_firstlineno


def test_what_a_lambda_was_compiled_of():
    text = "f = lambda x: (x +\n    2)"
    names = {}
    exec(compile(text, "a file", "exec"), names)
    first, start, last, stop = cpython.span_of(names["f"].__code__)
    body = ast.parse(text).body[0].value.body
    assert (first, last, stop) == (body.lineno, body.end_lineno, body.end_col_offset)
    assert start == body.col_offset
    nowhere = names["f"].__code__.replace(co_linetable=b"")
    assert cpython.span_of(nowhere) is None


def test_an_identity():
    assert cpython.is_identity(lambda g: g)
    assert not cpython.is_identity(lambda g: -g)
    assert not cpython.is_identity(abs)


def test_what_is_held_once():
    held = [object()]
    value = held[0]
    assert cpython.references(value) > cpython.ALONE
    held.clear()
    assert cpython.references(value) == cpython.ALONE


def test_a_target_that_nobody_holds():
    class Temporary:
        def __setitem__(self, key, said):
            said.append(cpython.is_temporary(cpython.references(self), self))

    said = []
    Temporary()[0] = said
    kept = Temporary()
    kept[0] = said
    kept.__setitem__(0, said)
    [kept][0][0] = said
    assert said == [True, False, False, False]


def test_no_garbage_is_looked_for():
    assert gc.isenabled()
    with cpython.uncollected():
        assert not gc.isenabled()
        with cpython.uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_interrupt_leaves_the_collector_on():
    def work():
        with cpython.uncollected():
            pass

    try:
        for n in itertools.count(1):
            ended = interrupted(Interrupt(n, in_agrad), work)
            assert gc.isenabled(), n
            if ended:
                break
    finally:
        gc.enable()


def test_python_tells_of_calls():
    met = []

    def told(frame):
        met.append(frame.f_code.co_name)

    def called():
        return sum(inner() for _ in range(1))

    def inner():
        return 1

    before = sys.getprofile()
    put_back = cpython.report_calls(told)
    try:
        called()
        with cpython.unprofiled():
            inner()
    finally:
        is_whole = put_back()
    assert is_whole
    assert sys.getprofile() is before
    assert [name for name in met if name in ("called", "inner")] == ["called", "inner"]


def test_a_profile_function_is_still_told():
    told, met = [], []
    sys.setprofile(lambda frame, event, argument: told.append(frame.f_code.co_name))
    try:
        before = sys.getprofile()
        put_back = cpython.report_calls(lambda frame: met.append(frame.f_code.co_name))
        frame_of_caller()
        assert put_back()
        assert sys.getprofile() is before
    finally:
        sys.setprofile(None)
    assert "frame_of_caller" in told
    assert "frame_of_caller" in met


def test_calls_that_were_not_told():
    put_back = cpython.report_calls(lambda frame: None)
    sys.setprofile(None)
    assert not put_back()


def test_threads_have_profile_functions_of_their_own():
    met = []
    put_back = cpython.report_calls(lambda frame: met.append(frame.f_code.co_name))
    other = threading.Thread(target=frame_of_caller)
    other.start()
    other.join()
    assert put_back()
    assert "frame_of_caller" not in met


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="profilers are functions of monitoring from Python 3.12 on")
def test_a_profiler_in_c_goes_on():
    import cProfile

    profiler = cProfile.Profile()
    profiler.enable()
    try:
        met = []
        put_back = cpython.report_calls(lambda frame: met.append(frame.f_code.co_name))
        frame_of_caller()
        assert put_back()
        assert sys.getprofile() is profiler
    finally:
        profiler.disable()
    assert "frame_of_caller" in met


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="asks for CPython's classes")
class TestVersionsOfClasses:
    """A version that is the same says that the members are; one that differs, nothing."""

    def pair(self):
        class Base:
            member = 1

        class Own(Base):
            other = 2

        return Base, Own

    def looked_up(self, kind):
        kind().__hash__
        version = cpython.version_of(kind)
        assert version.value
        return version, version.value

    @pytest.mark.parametrize(
        "change",
        [
            lambda base, own: setattr(own, "other", 3),
            lambda base, own: setattr(own, "another", 3),
            lambda base, own: setattr(base, "member", 3),
            lambda base, own: delattr(own, "other"),
            lambda base, own: setattr(own, "__bases__", (type("Another", (), {}),)),
        ],
    )
    def test_differ_after_a_change(self, change):
        base, own = self.pair()
        version, before = self.looked_up(own)
        change(base, own)
        assert version.value != before
        own().__hash__
        assert version.value != before

    def test_never_come_back(self):
        _, own = self.pair()
        version, before = self.looked_up(own)
        for _ in range(1500):  # CPython gives a class so many versions, and then none
            own.other = own.other
            own().__hash__
            assert version.value != before

    def test_stay_while_nothing_changes(self):
        base, own = self.pair()
        version, before = self.looked_up(own)
        made = own()
        made.attribute = 3
        type("Further", (own,), {}).other = 4
        assert (made.member, made.other, hasattr(own, "none"), own.__doc__) == (1, 2, False, None)
        assert version.value == before
        assert self.looked_up(base)[1] != before
