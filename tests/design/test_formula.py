"""Formulas: what they take, what they refuse before anything is evaluated, and what is learned once."""

import builtins
import datetime as dt
import re
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline

from vbsvm import Model
from vbsvm.design import frames
from vbsvm.design.columns import INTERCEPT, UNSEEN, Levels
from vbsvm.design.formula import learning as formulas
from vbsvm.design.formula import syntax
from vbsvm.design.formula.matrix import Matrix, Spline
from vbsvm.design.formula.terms import FormulaError
from vbsvm.design.scaling import ColumnSummary

COLUMNS = ["y", "x", "z", "g", "h", "my col", "age"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "y": rng.random(60) < 0.5,
            "x": rng.normal(size=60) * 3 + 100,
            "z": rng.gamma(1.0, size=60),
            "g": rng.integers(0, 6, size=60),
            "h": rng.choice(["a", "b", "c"], size=60),
            "my col": rng.normal(size=60),
        }
    )


def learn(text, frame, standardize=True):
    parts = syntax.read(text, list(frame.columns))
    weights = np.ones(len(frame))
    reader, centred, encoded = formulas.learn(parts, frames.take(frame, parts.columns), weights, standardize)
    columns = ColumnSummary.from_rows(encoded.table, weights)
    return reader.scaled(columns.recipe(reader.plan.recipe.intercept, standardize, centred)), encoded


@pytest.mark.parametrize(
    ("text", "fixed", "splines", "groups"),
    [
        ("y ~ x*z + (1|g)", "x*z", [], ["(1 | g)"]),
        ("y~x+(x|g)+(1+z||h) - 1", "x - 1", [], ["(x | g)", "(1 | h)", "(0 + z | h)"]),
        ("y ~ s(age) + s(x, k=8) + log(`my col`)", "log(`my col`)", ["s(age)", "s(x, k=8)"], []),
        ("y ~ (1 | g/h)", "1", [], ["(1 | g)", "(1 | g:h)"]),
        ("y ~ 0 + x + (0+x|g:h)", "0 + x", [], ["(0 + x | g:h)"]),
        ("y ~ (x + z)**2 + (x*z || g)", "(x + z)**2", [], ["(1 | g)", "(0 + x | g)", "(0 + z | g)", "(0 + x:z | g)"]),
        ("y ~ -1 + x", "- 1 + x", [], []),
        ("y ~ . + (1|g/h)", "`x` + `z` + `my col` + `age`", [], ["(1 | g)", "(1 | g:h)"]),
        ("y ~ C(h, contr.treatment('b')) + I(x | z)", "C(h, contr.treatment('b')) + I(x | z)", [], []),
        ("y ~ s(I(x / 2)) + I(x > 3)", "I(x > 3)", ["s(I(x / 2))"], []),
    ],
)
def test_a_formula_is_split_into_its_parts(text, fixed, splines, groups):
    parts = syntax.read(text, COLUMNS)
    assert parts.outcome == "y"
    assert parts.fixed == fixed
    assert [str(term) for term in parts.splines] == splines
    assert [str(term) for term in parts.groups] == groups


@pytest.mark.parametrize(
    "attack",
    [
        "{__import__('os').system('touch HIT')}",
        "__import__('os').system('touch HIT')",
        'eval(\'open("HIT", "w")\')',
        'exec(\'open("HIT", "w")\')',
        "open('HIT', 'w')",
        "log(open('HIT', 'w'))",
        "x.__class__",
        "I(x.__class__.__mro__)",
        "I([c for c in x])",
        "I((lambda: x)())",
        "I(x if open('HIT', 'w') else z)",
        'I(f\'{open("HIT", "w")}\')',
        "I((q := open('HIT', 'w')))",
        "np.load('HIT')",
        "x.to_csv('HIT')",
        "I(x.to_csv)",
        "log(x)(open('HIT', 'w'))",
        "C(x)[0]",
        "log(*x)",
        "log(**x)",
        "I(9 ** 9 ** 9)",
        "I('a' * 10)",
        "bs(x, df=100000000)",
        "poly(x, 100000000)",
        "lag(x)",
        "Q('x')",
        "hashed(x)",
        "I(await_ or x)",
        "I(x in z)",
        "I(x and z)",
        "I({1: x})",
        "I(x[0])",
        "I(x @ z)",
        "`__import__('os')`",
        "C(open('HIT', 'w'))",
        "C(x, contr.__class__())",
        "s(open('HIT', 'w'))",
        "I(x, \"`\", open('HIT', 'w'), \"`\")",
        "C(x, '`', __import__('os').system('touch HIT'), '`')",
        "I(x, '\\'', open('HIT', 'w'), '\\'')",
        "bs(x, df=+100000)",
        "bs(x, df=1000*100)",
        "bs(x, knots=[0]*3000000000)",
        "bs(x, degree=1000)",
        "(x + z + g + h)**40",
        "I(" + "-" * 5000 + "x)",
        "log(x, out=z)",
        "s(__import__('os').system('touch HIT'))",
    ],
)
@pytest.mark.parametrize("place", ["y ~ {}", "y ~ x + {} + (1 | g)", "y ~ x:{}", "y ~ (1 + {} | g)", "y ~ ({} || g)"])
def test_a_formula_runs_no_code(attack, place, frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormulaError):
        learn(place.format(attack), frame)
    assert list(tmp_path.iterdir()) == []


WIDE = [f"v{i}" for i in range(40)]


@pytest.mark.parametrize(
    "text",
    [
        "I(v0 * ((1, 2) * 100000000))",
        "I(v0 + [1] * 100000000)",
        "I('a' * 100000000)",
        "I(v0 * ((5**5)**5)**5)",
        "I(v0 ** (9 ** 9))",
        f"I(v0 + 1{'0' * 4000})",
        f"I(v0 + 1{'0' * 5000})",
        f"v0**{'9' * 5000}",
        f"v0:{'9' * 5000}",
        f"s(v0, k={'9' * 5000})",
        f"{'(' * 5000}v0{')' * 5000}",
        f"I({'(' * 60}v0{')' * 60})",
        ".**5",
        ".**3",
        "(. + 0)**4",
        ".:.:.:.",
        "*".join(WIDE[:13]),
        f"({' + '.join(WIDE)})**5",
        f"(({' + '.join(WIDE[:5])})**5)**5",
        " + ".join(["*".join(WIDE[:12])] * 9),
        "bs(v0, df=1001)",
        "bs(v0, knots=[1] * 1000000000)",
        "poly(v0, 10)",
        "bs(v0, df=200):bs(v1, df=200)",
        "C(code):C(other)",
        "C(code)*text",
        "text:C(other):v0",
        "C(code, contr.poly)",
        "C(text, contr.helmert)",
    ],
)
@pytest.mark.parametrize("place", ["y ~ {}", "y ~ v0 + ({} | g)"])
def test_what_would_take_forever_is_refused_before_it_begins(text, place):
    if text.startswith("s(") and "|" in place:
        pytest.skip("a spline is no effect of groups")
    n = 1500
    numbers = {name: np.linspace(k, k + 1, n) for k, name in enumerate(WIDE)}
    labels = {"code": np.arange(n), "other": np.arange(n)[::-1], "text": [f"level {i}" for i in range(n)]}
    data = pd.DataFrame({**numbers, **labels, "g": np.arange(n) % 5, "y": np.arange(n) % 2})
    if text[0] in ".(":
        data = data.drop(columns=list(labels))
    with pytest.raises(FormulaError) as caught:
        learn(place.format(text), data)
    assert len(str(caught.value)) < 1000


def test_levels_without_end_in_a_file_are_refused_before_columns_are_formed():
    levels = {"transforms": {}, "categories": {"C(a)": list(range(5000)), "C(b)": list(range(5000))}}
    with pytest.raises(FormulaError, match=r"C\(a\):C\(b\) alone has 25000000"):
        Matrix.from_learned("C(a):C(b)", levels, pd.DataFrame({"a": [], "b": []}))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("factor(g)", "C(g)"),
        ("as.factor(h)", "C(h)"),
        ("I(x^2)", "I(x**2)"),
        ("I((x - 100)^2)", "I((x - 100)**2)"),
        ("(x + z)^2", "x * z"),
        ("np.log(x)", "log(x)"),
        ("numpy.sqrt(z) + np.exp(z)", "sqrt(z) + exp(z)"),
        ("I(np.log(x) / 2)", "I(log(x) / 2)"),
        ("C(h, Treatment(reference='b'))", "C(h, contr.treatment(base='b'))"),
        ('C(h, Treatment("b"))', 'C(h, contr.treatment("b"))'),
        ("C(h, Sum)", "C(h, contr.sum)"),
        ("factor(h, contrasts=Treatment(reference = 'c'))", "C(h, contr.treatment(base='c'))"),
        ("log(`x`)", "log(x)"),
        ("log(age.years)", "log(x)"),
        ("exp10(z)", "I(exp(z * 2.302585092994046))"),
        ("I(x - narrow)", "I(x - 200)"),
        ("I(narrow + narrow)", "I(400 + 0 * x)"),
        ("I(narrow**5 * narrow**5)", "I(1.024e23 + 0 * x)"),
    ],
)
def test_habits_from_elsewhere_mean_what_they_meant(text, same, frame):
    data = frame.assign(**{"age.years": frame["x"], "narrow": np.full(60, 200, dtype=np.uint8)})
    found, expected = learn(f"y ~ {text}", data), learn(f"y ~ {same}", data)
    np.testing.assert_allclose(found[1].table, expected[1].table, rtol=1e-12)
    np.testing.assert_allclose(found[0].read(data.tail(9)).table, expected[1].table[-9:], rtol=1e-9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ ns(x, df=4)", r"ns\(…\) .* use s\(x\).*, or cr\(x, df=4\)"),
        ("y ~ offset(x)", "offsets are not supported"),
        ("y ~ cut(x, 3)", "pandas.cut"),
        ("y ~ relevel(h, ref='b')", "contr.treatment"),
        ("y ~ x | g", r"has a bar outside of brackets: write \(effects \| group\), as in y ~ x \+ \(1 \| g\)"),
        ("y ~ 1 + x || g", "has a bar outside of brackets"),
        ("y ~ x %in% z", "%in% is not available: write a/b"),
        ("y ~ x %% z", r"write I\(a % b\)"),
        ("y := x", "Write ~ in place of :="),
        ("y <- x", "Write ~ in place of <-"),
        ("y = x", "Write ~ in place of ="),
        ("y == 1 ~ x", r"'y == 1' is none of .* write y ~ … and Model\(…, positive=level\)"),
        ("x + z", "as in 'y ~ x \\+ z': 'x \\+ z' has 0"),
        ("y ~", "Nothing stands right of ~"),
        ("y ~ log(x, 2)", "takes one expression and no settings"),
        ("y ~ 3*x", r"write I\(3 \* x\)"),
        ("y ~ x == z", "a sign in it has no meaning between terms"),
        ("y ~ I(x < z < g)", "compares three things"),
        ("y ~ log(.)", "functions take one column"),
        ("y ~ x - nope", "'nope' is none of"),
        ("y ~ bs(x, df=2)", "at least 3"),
        ("y ~ cr(x)", "needs knots, or its size|needs knots or its size"),
        ("y ~ poly(x, 0)", "a degree from 1 to 9"),
        ("y ~ scale(x, foo=1)", "the settings center, scale, ddof"),
        ("y ~ log(C(h))", "let it stand alone"),
        ("y ~ I(1)", "has no column in it"),
        ("y ~ C(h, contr.treatment('b', 'c'))", "takes base"),
        ("y ~ np.sort(x)", "'np.sort' in 'np.sort\\(x\\)' is not a known function"),
    ],
)
def test_habits_that_have_no_place_get_a_hint(text, message, frame):
    with pytest.raises(FormulaError, match=message):
        syntax.read(text, list(frame.columns))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ log(h)", "'log\\(h\\)' calculates with column 'h', which is not numeric"),
        ("y ~ poly(h, 2)", "calculates with column 'h'"),
        ("y ~ C(h, contr.treatment('q'))", "'q' is the reference of a category in the formula"),
        ("y ~ I(x | z)", "join comparisons"),
    ],
)
def test_what_can_not_be_computed_is_said_in_words(text, message, frame):
    with pytest.raises(FormulaError, match=message):
        learn(text, frame)


def test_values_beyond_a_basis_are_told_with_what_to_do(frame):
    reader, _ = learn("y ~ bs(x, df=5)", frame)
    with pytest.raises(FormulaError, match="beyond its boundary knots: write extrapolation='clip'"):
        reader.read(frame.assign(x=1e4))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("y ~ .**2 + (1 | g)", ["x", "z", "w", "x:z", "x:w", "z:w"]),
        ("y ~ (.)^2 - x:z + (1 | g)", ["x", "z", "w", "x:w", "z:w"]),
        ("y ~ . * x + (1 | g)", ["x", "z", "w", "z:x", "w:x"]),
        ("y ~ x:. + (1 | g)", ["x", "x:z", "x:w"]),
        ("y ~ . - w + (1 | g)", ["x", "z"]),
        ("y ~ (. - w)**2 + (1 | g)", ["x", "z", "x:z"]),
        ("y ~ x + (. | g)", ["x", "z", "w"]),
        ("y ~ x + (0 + . || g)", ["x", "x", "z", "w"]),
        ("y ~ log(x) + . + (1 | g)", ["log(x)", "x", "z", "w"]),
    ],
)
def test_a_dot_is_all_other_columns_wherever_it_stands(text, names, frame):
    data = frame[["y", "x", "z", "g"]].assign(w=frame["my col"])
    assert list(learn(text, data)[0].plan.names) == names


PIECES = re.findall(
    r"\S+",
    "x z g h nope y 1 0 2 -1 . + - * / : ** ^ | || ~ ( ) [ ] { } , = == < ! % %in% $ @ ; \\ ' \" ` `my`"
    " log( C( I( poly( bs( s( scale( np.log( factor( cr( (1|g) (x|g) C(h) I(x^2) df=5 2) 'a' 'b') x) h) `my_col`",
)
FOREIGN = r"formulaic|Unable to|ufunc|Error:|unexpected keyword|invalid syntax|[^.?]$"


def test_odd_formulas_work_or_are_refused_in_words(frame):
    rng = np.random.default_rng(5)
    said = {}
    for _ in range(600):
        text = "y ~ " + rng.choice(["", " "]).join(rng.choice(PIECES, size=rng.integers(1, 7)))
        try:
            learn(text, frame.head(30))
        except ValueError as error:
            said[text] = str(error)
    assert 100 < len(said) < 600
    assert {text: message for text, message in said.items() if re.search(FOREIGN, message)} == {}


def test_a_column_with_the_name_of_code_is_a_column_in_backticks_and_code_without(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "open(HIT)"
    monkeypatch.setattr(builtins, "HIT", "HIT", raising=False)
    (tmp_path / "HIT").mkdir()  # to open it would be an error of another kind
    frame[code] = frame["x"]
    for text in (f"y ~ {code}", f"y ~ x + {{{code}}}", f"y ~ {code} + `{code}`", f"y ~ `{code}` + {code}"):
        with suppress(FormulaError):
            learn(text, frame)
    _, encoded = learn(f"y ~ `{code}`", frame)
    np.testing.assert_array_equal(encoded.table[:, 0], frame["x"])


def test_names_of_the_callers_scope_are_not_seen(frame):
    elsewhere = frame["x"]
    with pytest.raises(FormulaError, match="'elsewhere' is none of 'y', 'x'"):
        learn("y ~ elsewhere", frame)
    assert len(elsewhere) == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y", "one ~"),
        ("y ~ `0` + x", "The column 0 has a name that is not text, .* data.columns.map"),
        ("y ~ .", "The column 0 has a name that is not text"),
        ("y ~ x ~ z", "one ~"),
        ("~ x", "the outcome, left of ~, must be a column; '' is none of"),
        ("log(y) ~ x", "the outcome, left of ~, must be a column; 'log\\(y\\)'"),
        ("y | z ~ x", "the outcome, left of ~"),
        ("y ~ x +", "A term is missing"),
        ("y ~ x + (1 | g", "A bracket is not closed"),
        ("y ~ x) + z", "A bracket is closed that was never opened"),
        ("y ~ 'x", "A quote is not closed"),
        ("y ~ (1 | g)*x", r"\(effects \| group\) must stand alone"),
        ("y ~ x:(1 | g)", r"\(effects \| group\) must stand alone"),
        ("y ~ x - (1 | g)", "can't be taken away"),
        ("y ~ x - s(z)", "can't be taken away"),
        ("y ~ (1 | nope)", r"the group in '\(1 \| nope\)' must be a column; 'nope' is none of"),
        ("y ~ ( | g)", "needs effects left of the bar"),
        ("y ~ (1 | )", "needs effects left of the bar"),
        ("y ~ (1 | g/g)", "names a column twice"),
        ("y ~ nope", "'nope' is none of"),
        ("y ~ log(nope)", "'nope' is none of"),
        ("y ~ x:s(z)", "must stand alone"),
        ("y ~ s()", "needs a column"),
        ("y ~ s(x, k=2)", "k from 4 to 1000"),
        ("y ~ s(x, df=5)", "takes one setting"),
        ("y ~ s(x/2)", r"write I\(x/2\)"),
        ("y ~ s(x) + s(x)", "occurs twice"),
        ("y ~ y + x", "is also on the right of ~"),
        ("y ~ my col", "'my col' can't be read"),
        ("y ~ C(x + 1)", "takes a column"),
        ("y ~ (x | g | h)", "has two bars"),
        ("y ~ `it's`", "may not stand within"),
        ("y ~ (x + z)**9", "Powers go up to 5"),
        ("y ~ poly(x, 50)", r"a setting is a number \(up to 9\)"),
    ],
)
def test_what_is_wrong_with_a_formula_is_said(text, message, frame):
    with pytest.raises(FormulaError, match=message):
        syntax.read(text, [*frame.columns, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ (0 | g)", "has no effects"),
        ("y ~ (1 | g) + (x | g)", r"The effect \(intercept\) of g occurs in two terms"),
        ("y ~ s(h)", "needs one column of numbers"),
        ("y ~ log(x - 100)", r"log\(x - 100\) is (nan|-inf) in row"),
        ("y ~ s(I(g > 2))", "at least 4 distinct values; there are 2"),
        ("y ~ 0", "nothing on the right of ~ to fit"),
    ],
)
def test_what_does_not_fit_the_data_is_said(text, message, frame):
    with pytest.raises(ValueError, match=message):
        learn(text, frame)


def test_a_formula_that_is_no_text_and_data_that_are_no_frame_are_refused(frame):
    with pytest.raises(TypeError, match="must be text"):
        syntax.read(3, ["y"])
    with pytest.raises(TypeError, match="must be a data frame"):
        frames.names_of(np.ones((3, 2)))
    with pytest.raises(ValueError, match="two columns of the name 'x'"):
        frames.names_of(pd.concat([frame, frame[["x"]]], axis=1))
    with pytest.raises(FormulaError, match="hides the function"):
        learn("y ~ log(x)", frame.assign(log=1.0))


def test_transforms_levels_and_knots_are_learned_once(frame):
    text = "y ~ scale(x) + poly(x, 2) + h + s(z) + center(x):h + (scale(z) | g) + (1 | h)"
    reader, encoded = learn(text, frame)
    part = frame.iloc[10:13].drop(columns="y")
    again = reader.read(part)
    np.testing.assert_allclose(again.table, encoded.table[10:13], atol=1e-10)
    for one, other in zip(again.levels, encoded.levels, strict=True):
        np.testing.assert_array_equal(one, other[10:13])


def test_an_unknown_category_is_refused_and_an_unknown_group_is_not(frame):
    reader, _ = learn("y ~ x + h + (1 | g)", frame)
    new = frame.head(3).assign(g=[0, 77, 1])
    np.testing.assert_array_equal(reader.read(new).levels[0] == UNSEEN, [False, True, False])
    with pytest.raises(ValueError, match="Column 'h' contains 'q' in row 1, a category that was not seen in fit"):
        reader.read(new.assign(h=["a", "q", "b"]))
    reader, _ = learn("y ~ C(g)", frame)
    with pytest.raises(ValueError, match="Column 'g' contains 77 in row 1"):
        reader.read(new)


def test_missing_values_and_columns_are_named_with_their_rows(frame):
    reader, _ = learn("y ~ x + h + (1 | g)", frame)
    incomplete = frame.astype({"g": object})
    incomplete.loc[[3, 7], "g"] = None
    with pytest.raises(ValueError, match="Column 'g' has no value in rows 3, 7"):
        reader.read(incomplete)
    with pytest.raises(ValueError, match="Column 'g' has no value in rows 3, 7"):
        learn("y ~ x + h + (1 | g)", incomplete)
    with pytest.raises(ValueError, match="no column 'x'; they have 'y', 'z'"):
        reader.read(frame.drop(columns="x"))
    with pytest.raises(ValueError, match="contains dates or times"):
        learn("y ~ x", frame.assign(x=pd.Timestamp("2020-01-01")))
    with pytest.raises(ValueError, match="no rows"):
        reader.read(frame.head(0))
    with pytest.raises(ValueError, match=r"mixes text and numbers \(rows 0 and 1\)"):
        learn("y ~ (1 | g)", frame.assign(g=["a", *frame["g"][1:]]))


def test_a_failed_prediction_leaves_the_reader_as_it_was(frame):
    reader, encoded = learn("y ~ x + h + (z | g)", frame)
    for wrong in ({"x": "1.5"}, {"h": "nope"}, {"z": "text"}):
        with pytest.raises(ValueError, match=r"Column"):
            reader.read(frame.assign(**wrong))
    np.testing.assert_array_equal(reader.read(frame).table, encoded.table)


def test_columns_of_every_type_are_what_they_mean(frame):
    _, expected = learn("y ~ x + h + (1 | g)", frame)
    for types in ({"x": object}, {"h": "string"}, {"h": "category"}, {"g": "Int64"}, {"g": object}, {"x": "Float64"}):
        _, encoded = learn("y ~ x + h + (1 | g)", frame.astype(types))
        np.testing.assert_allclose(encoded.table, expected.table)
        np.testing.assert_array_equal(encoded.levels[0], expected.levels[0])
    large = frame.assign(g=pd.Series([2**60 + g for g in frame["g"]], dtype=object))
    np.testing.assert_array_equal(learn("y ~ (1 | g)", large)[1].levels[0], expected.levels[0])
    unused = frame.assign(h=pd.Categorical(frame["h"], ["zz", "a", "b", "c", "yy"]))
    reader, encoded = learn("y ~ x + h + (1 | g)", unused)
    np.testing.assert_allclose(encoded.table, expected.table)
    with pytest.raises(ValueError, match="a category that was not seen in fit"):
        reader.read(unused.assign(h="zz"))
    with pytest.raises(ValueError, match="contains dates or times"):
        learn("y ~ (1 | g)", frame.assign(g=[dt.date(2020, 1, 1 + g) for g in frame["g"]]))


@pytest.mark.parametrize("name", ["1", ".", "~", "", "it's", '5" pipe', "a`b", "a\\"])
def test_names_that_would_be_misread_are_refused(frame, name):
    """formulaic takes a `1` for the intercept, and the column would be lost without a word."""
    renamed = frame.rename(columns={"x": name})
    for formula in ("y ~ .", f"y ~ z + `{name}`") if "`" not in name else ("y ~ .",):
        with pytest.raises(FormulaError, match=r"may not stand within|misread"):
            syntax.read(formula, list(renamed.columns))


@pytest.mark.parametrize("name", ["0", "2", "x y", "(", "+", "a:b", '"x"', "a\\b", "é", "1.0"])
def test_other_names_are_read_as_they_are(frame, name):
    renamed = frame.rename(columns={"x": name})[[name, "y"]]
    assert learn("y ~ .", renamed)[0].fixed.names == ["(intercept)", name]


def test_names_of_the_intercept_are_refused_and_the_weights_are_not_an_input(frame):
    for name in ("Intercept", "(intercept)"):
        with pytest.raises(FormulaError, match="may not be called"):
            learn(f"y ~ `{name}`", frame.assign(**{name: 1.0}))
    assert "w" not in syntax.read("y ~ . + (1 | g)", [*frame.columns, "w"], "w").columns


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(x | g)", "(1+x|g)"),
        ("(1 | a:b)", "( 1 | b:a )"),
        ("s(z, k=20)", "s( z )"),
        ("a:b", "b : a"),
        ("`a_b`:z", "z:a_b"),
        ("(0 + x + z | g)", "(z + x - 1 | g)"),
    ],
)
def test_keys_are_the_same_in_any_way_of_writing(one, other):
    assert syntax.normal_form(one) == syntax.normal_form(other)
    assert syntax.normal_form(one) != syntax.normal_form("(1 | h)")


def test_slopes_share_the_columns_of_the_fixed_effects_or_bring_their_own(frame):
    shared, _ = learn("y ~ x + (x | g)", frame)
    assert shared.plan.n_carried == 0
    assert shared.plan.factors[0].slopes == (0, 1)
    own, encoded = learn("y ~ z + (x | g)", frame)
    assert own.plan.n_carried == 1
    assert own.plan.factors[0].slopes == (0, 2)
    np.testing.assert_array_equal(encoded.table[:, 1], frame["x"])
    assert own.plan.recipe.centre[1] == pytest.approx(frame["x"].mean())
    through_origin, _ = learn("y ~ x + (0 + x | g)", frame)  # not centred, so another column than the fixed effect's
    assert through_origin.plan.n_carried == 1
    assert through_origin.plan.recipe.centre[1] == 0
    without_intercept, _ = learn("y ~ 0 + x + (x | g)", frame)
    assert without_intercept.plan.factors[0].effects == (INTERCEPT, "x")
    assert without_intercept.plan.names == ("x", INTERCEPT, "x")
    raw, _ = learn("y ~ x + (0 + x | g)", frame, standardize=False)
    assert raw.plan.n_carried == 0
    np.testing.assert_array_equal(raw.plan.recipe.scale, 1.0)


def test_the_largest_factor_comes_last_and_terms_of_the_same_groups_are_one(frame):
    reader, _ = learn("y ~ (1 | g) + (1 | h) + (0 + x | g)", frame)
    assert [factor.name for factor in reader.plan.factors] == ["h", "g"]
    assert reader.plan.factors[1].effects == (INTERCEPT, "x")


def test_levels_of_several_columns_are_the_combinations_that_occur():
    a, b = np.array(["u", "v", "u", "u"], dtype=object), np.array([2, 1, 1, 2])
    levels, numbers = Levels.learn([a, b])
    assert levels.labels == [("u", 1), ("u", 2), ("v", 1)]
    np.testing.assert_array_equal(numbers, [1, 2, 0, 1])
    new = [np.array(["v", "v", "w", "u"], dtype=object), np.array([1, 2, 1, 9])]
    np.testing.assert_array_equal(levels.encode(new), [2, UNSEEN, UNSEEN, UNSEEN])


def test_a_splines_ridge_is_the_bending_of_its_curve():
    x = np.random.default_rng(1).gamma(2.0, size=200)
    spline = Spline.learn(x, 12)
    u = np.random.default_rng(2).normal(size=spline.n_columns)
    curve = BSpline(spline.knots, spline.rotation @ u, 3)
    t = np.linspace(0, 1, 200_001)
    middle = 0.5 * (t[1:] + t[:-1])
    bending = np.square(curve.derivative(2)(middle)).sum() * (t[1] - t[0])
    scale = np.sqrt(np.square(spline.encode(np.unique(x))).sum(axis=1).mean())
    assert scale == pytest.approx(1.0)
    twice = Spline.learn(x, 12).rotation @ (2 * u)
    bending_twice = np.square(BSpline(spline.knots, twice, 3).derivative(2)(middle)).sum() * (t[1] - t[0])
    assert bending_twice == pytest.approx(4 * bending)
    # ∫ f″² is the same multiple of ‖u‖² whatever u is.
    other = np.random.default_rng(3).normal(size=spline.n_columns)
    other_curve = BSpline(spline.knots, spline.rotation @ other, 3)
    other_bending = np.square(other_curve.derivative(2)(middle)).sum() * (t[1] - t[0])
    assert other_bending / (other @ other) == pytest.approx(bending / (u @ u), rel=1e-6)


@pytest.mark.parametrize(("spread", "seed"), [(3.0, 13), (3.5, 19), (3.0, 32), (4.0, 0)])
def test_splines_of_skewed_columns_are_those_of_their_mirror(spread, seed):
    x = np.exp(spread * np.random.default_rng(seed).normal(size=300))
    one, mirrored = Spline.learn(x, 20).encode(x), Spline.learn(x.max() - x, 20).encode(x.max() - x)
    # Bases may be rotated against each other; the distribution of the curve, Z Zᵀ, may not.
    np.testing.assert_allclose(one @ one.T, mirrored @ mirrored.T, atol=1e-6 * np.abs(one).max() ** 2)


def test_splines_and_the_line_span_smooth_curves_and_go_on_straight():
    x = np.linspace(-3, 5, 400)
    spline = Spline.learn(x, 20)
    basis = np.column_stack([np.ones(400), x, spline.encode(x)])
    wanted = np.sin(x)
    found = basis @ np.linalg.lstsq(basis, wanted, rcond=None)[0]
    assert np.abs(found - wanted).max() < 2e-3
    beyond = spline.encode(np.array([5.0, 6.0, 7.0, -3.0, -4.0, -5.0]))
    np.testing.assert_allclose(beyond[1] - beyond[0], beyond[2] - beyond[1], atol=1e-10)
    np.testing.assert_allclose(beyond[4] - beyond[3], beyond[5] - beyond[4], atol=1e-10)
    inside = spline.encode(np.array([5.0 - 1e-6, 5.0]))
    np.testing.assert_allclose((inside[1] - inside[0]) / 1e-6, beyond[1] - beyond[0], atol=1e-3)
    assert Spline.learn(np.array([1.0, 2.0, 3.0, 4.0, 4.0]), 20).n_columns == 2


def test_a_basis_of_more_columns_than_rows_is_refused():
    frame = pd.DataFrame({"a": np.linspace(0, 1, 60), "y": np.arange(60) % 2})
    with pytest.raises(ValueError, match=r"bs\(a, df=999\) has more columns than the data have rows \(60\)"):
        Model("y ~ bs(a, df=999)", frame)
    Model("y ~ bs(a, df=12)", frame)
