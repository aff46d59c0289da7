"""Model files: what was saved comes back to the last bit, and no damage or malice goes unnoticed."""

import copy
import io
import json
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import zipfile
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import vbsvm
from mutations import forge, judged, npy, parts_of
from saved_models import MODELS, answers, made, require_same, table
from vbsvm import VBSVC, Gibbs, LaplaceZero, Model, ModelFileError, load
from vbsvm.inference import chains
from vbsvm.results import consistency
from vbsvm.storage import names

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A directory with a file of every kind of model, and what the model said before it was saved."""
    place = tmp_path_factory.mktemp("models")
    known = {}
    for number, kind in enumerate(MODELS):
        model, data = made(kind)
        model.save(place / f"{number}.vbsvm")
        known[kind] = (place / f"{number}.vbsvm", data, answers(model, data), model)
    return known


@pytest.fixture(scope="module")
def whole(shelf):
    """The bytes of a file with a formula, groups, splines and missing values."""
    return shelf["missing in a formula"][0].read_bytes()


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_back_to_the_last_bit(kind, shelf):
    path, data, expected, _ = shelf[kind]
    require_same(answers(load(path), data), expected)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_that_came_back_is_saved_to_the_same_bytes(kind, shelf, tmp_path):
    path = shelf[kind][0]
    load(path).save(tmp_path / "again.vbsvm")
    assert (tmp_path / "again.vbsvm").read_bytes() == path.read_bytes()


def test_a_fresh_process_says_the_same(shelf, tmp_path):
    """Up to rounding: where arrays begin in memory is another place there, and vector instructions add accordingly."""
    (tmp_path / "known").write_bytes(pickle.dumps([known[:3] for known in shelf.values()]))
    code = (
        "import pickle, sys; from saved_models import answers, require_same; from vbsvm import load\n"
        "for path, data, expected in pickle.load(open(sys.argv[1], 'rb')):\n"
        "    require_same(answers(load(path), data), expected, rtol=1e-12)"
    )
    paths = os.pathsep.join([str(TESTS), str(Path(vbsvm.__file__).parent.parent)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, tmp_path / "known"], check=True, env=environment)


def registered(kind):
    """Whether files know the class; a reader has a form of its own."""
    return kind.__name__ == "Reader" or f"{kind.__module__}:{kind.__name__}" in names.MODELS.values()


def reachable(value, where, seen):
    """Yield every class that can be reached from an object, and the way there."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if is_dataclass(value) or isinstance(value, Enum):
        yield type(value), where
    if registered(type(value)) or where.count(".") == 0:
        for field in fields(value) if is_dataclass(value) else ():
            yield from reachable(getattr(value, field.name), f"{where}.{field.name}", seen)
    if isinstance(value, dict | list | tuple):
        for key, one in enumerate(value.values() if isinstance(value, dict) else value):
            yield from reachable(one, f"{where}[{key}]", seen)


@pytest.mark.parametrize("kind", MODELS)
def test_every_class_that_a_fit_reaches_is_registered(kind, shelf):
    model = shelf[kind][3]
    for fit in [model] if isinstance(model, vbsvm.results.fit.Fit) else model.fit_:
        for found, where in reachable(fit._without_rows(), "fit", {}):
            inside = where.startswith("fit.reader.")
            assert where == "fit" or inside or registered(found), (
                f"{where} is a {found.__name__}, which model files do not know: add it to storage/names.py."
            )


def test_parameters_come_back_so_that_the_classifier_can_be_cloned_and_fitted_again(shelf):
    for path, _, _, model in shelf.values():
        if isinstance(model, VBSVC):
            back = load(path)
            assert back.get_params() == model.get_params()
            assert clone(back).get_params() == model.get_params()
    path, data, expected, _ = shelf["gates"]
    again = clone(load(path)).fit(data, table()["y"])
    np.testing.assert_array_equal(again.decision_function(data), expected["scores"])


def test_a_generator_is_saved_as_none_and_numbers_keep_their_types(tmp_path):
    data = table()
    settings = LaplaceZero(rho=np.float64(0.3)), Gibbs(draws=np.int64(6), tune=2, chains=1)
    clf = VBSVC(*settings, class_weight={"no": np.float32(2.0), "yes": 1}, random_state=np.random.RandomState(0))
    with pytest.warns(UserWarning, match="chains have not converged"):
        clf.fit(data[["a", "b"]], data["y"])
    clf.save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.random_state is None
    assert type(back.inference.draws) is np.int64
    assert type(back.class_weight["no"]) is np.float32


@pytest.mark.parametrize("labels", [[1, 2], [False, True], [-1.0, 1.0], ["a", "ä"], np.array(["x", "y"], dtype=object)])
def test_labels_of_any_kind_come_back(labels, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    clf = VBSVC().fit(X, np.asarray(labels)[(X[:, 0] > 0).astype(int)])
    clf.save(tmp_path / "m")
    found = load(tmp_path / "m").predict(X)
    assert found.dtype == clf.predict(X).dtype
    np.testing.assert_array_equal(found, clf.predict(X))


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        [1.5, -2.0, 0.0],
        ["b", "ä", ""],
        np.array(["2020-01", "2021"], "M8[D]"),
    ],
    ids=["numbers", "floats", "text", "dates"],
)
def test_groups_of_any_kind_come_back(ids, tmp_path):
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=30)})
    frame["g"] = [ids[k % len(ids)] for k in range(30)]
    clf = VBSVC(group="g").fit(frame, frame["a"] > 0)
    clf.save(tmp_path / "m")
    back = load(tmp_path / "m")
    np.testing.assert_array_equal(back.decision_function(frame), clf.decision_function(frame))
    labels = back.fit_[0].plan.factors[0].levels.labels
    assert labels == clf.fit_[0].plan.factors[0].levels.labels
    assert type(labels[0]) is type(clf.fit_[0].plan.factors[0].levels.labels[0])


def test_the_training_data_are_not_in_the_file(tmp_path):
    data = table()
    data["a"] = np.random.default_rng(3).normal(size=len(data))
    Model("y ~ a + h + (1 | g)", data).fit().save(tmp_path / "m")
    whole = (tmp_path / "m").read_bytes()
    held = [x for x in data["a"] if np.float64(x).tobytes() in whole or repr(float(x)).encode() in whole]
    assert len(held) <= 1  # the value furthest from 0, at which products are evaluated


# Damage


def altered(whole, rng):
    """The bytes with one changed, or some cut off, cut out, put in, or exchanged."""
    at, other = sorted(int(x) for x in rng.integers(0, len(whole), size=2))
    some = rng.bytes(int(rng.integers(1, 9)))
    match rng.integers(0, 8):
        case 0:
            return whole[:at]
        case 1:
            return whole[:at] + some + whole[at:]
        case 2:
            return whole[:at] + whole[at + len(some) :]
        case 3:
            return whole[:at] + whole[other : other + 1] + whole[at + 1 :]
        case _:
            return whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :]


def fuzz(path, data, expected, seed, times):
    whole, rng, loaded = path.read_bytes(), np.random.default_rng(seed), 0
    damaged = path.with_name("damaged")
    for _ in range(times):
        damaged.write_bytes(altered(whole, rng))
        try:
            model = load(damaged)
        except ModelFileError:
            continue
        loaded += 1
        require_same(answers(model, data), expected)
    return loaded


def test_damage_is_refused_or_does_no_harm(shelf):
    """A few changes are of bytes that nobody reads, such as dates in the zip: these load, to the same answers."""
    kinds = ["missing in a formula", "classes", "draws of gates"]
    loaded = [fuzz(*shelf[kind][:3], seed=1, times=300) for kind in kinds]
    assert max(loaded) < 150
    assert sum(loaded) > 0


@pytest.mark.long
def test_much_damage_is_refused_or_does_no_harm(shelf):
    for seed, (path, data, expected, _) in enumerate(shelf.values()):
        fuzz(path, data, expected, seed, times=20_000 // len(shelf) + 1)


def test_the_fuzz_would_see_a_file_without_seals(shelf, monkeypatch, tmp_path):
    """The negative control: with all digests ignored, some damage is silent."""
    _, data, expected, model = shelf["classes"]

    class Same:
        def __init__(self, part):
            pass

        def hexdigest(self):
            return "0" * 64

    monkeypatch.setattr(vbsvm.storage.saving.hashlib, "sha256", Same)
    monkeypatch.setattr(zipfile, "crc32", lambda part, value=0: 0)
    model.save(tmp_path / "open")
    with pytest.raises(AssertionError):
        fuzz(tmp_path / "open", data, expected, seed=2, times=1000)


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x05\x06" + bytes(18), b"a,b\n1,2\n", b"\x93NUMPY"])
def test_what_is_no_model_file_is_refused_in_words(content, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(ModelFileError, match="can't be read as a model file"):
        load(tmp_path / "m")


def test_a_missing_file_is_a_missing_file_and_a_directory_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(f"There is no file {tmp_path / 'nothing'}.")) as missing:
        load(tmp_path / "nothing")
    assert "Errno" not in str(missing.value)
    with pytest.raises(ModelFileError, match="is a directory"):
        load(tmp_path)


# Malice: files whose seals are right


def test_a_forged_file_without_a_change_loads(whole, shelf, tmp_path):
    _, data, expected, _ = shelf["missing in a formula"]
    require_same(answers(load(forge(tmp_path / "m", parts_of(whole))), data), expected)


def test_a_newer_file_says_that_vbsvm_is_too_old(whole, tmp_path):
    with pytest.raises(ModelFileError, match=r"made by a newer vbsvm \(9\.1; .*upgrade"):
        load(forge(tmp_path / "m", parts_of(whole), schema=2, vbsvm="9.1", unheard_of=1))


@pytest.mark.parametrize("schema", [0, -1, "1", None, 1.5])
def test_a_schema_that_never_was_is_refused(schema, whole, tmp_path):
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", parts_of(whole), schema=schema))


def test_other_kinds_of_files_are_refused(whole, tmp_path):
    chains.write_checkpoint(tmp_path / "m", {}, ())
    with pytest.raises(ModelFileError, match="contains 'vbsvm chains', not 'vbsvm model'"):
        load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="of the kind 'Frog'"):
        load(forge(tmp_path / "m", parts_of(whole), kind="Frog"))


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_pickles_are_not_opened(whole, tmp_path):
    for hidden in (npy(np.array([Bomb(tmp_path / "boom")]), allow_pickle=True), pickle.dumps(Bomb(tmp_path / "boom"))):
        with pytest.raises(ModelFileError):
            load(forge(tmp_path / "m", parts_of(whole) | {"0.npy": hidden}))
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize("name", ["../evil.npy", "/tmp/evil.npy", "9999.npy", "evil.txt", "0.NPY", "content.json/"])
def test_parts_of_other_names_are_refused(name, whole, tmp_path):
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", parts_of(whole) | {name: npy(np.zeros(3))}))


def test_a_part_that_is_missing_twice_there_or_beside_the_manifest_is_refused(whole, tmp_path):
    parts = parts_of(whole)
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", {name: part for name, part in parts.items() if name != "1.npy"}))
    with pytest.warns(UserWarning, match="Duplicate"):
        forge(tmp_path / "m", parts, more=[("0.npy", parts["0.npy"])])
    with pytest.raises(ModelFileError, match="twice"):
        load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="not those that were written"):
        load(forge(tmp_path / "m", parts, more=[("more", b"")]))


@pytest.mark.parametrize("descr", ["<U0", "|S0"])
def test_text_of_no_characters_claims_no_memory(descr, whole, tmp_path):
    buffer = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": (20_000_000,)}
    np.lib.format.write_array_header_1_0(buffer, header)
    forged = forge(tmp_path / "m", parts_of(whole) | {"0.npy": buffer.getvalue()})
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="longer or shorter than it says"):
            load(forged)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_bombs_are_not_unpacked(whole, tmp_path):
    with pytest.raises(ModelFileError, match="packed"):
        load(forge(tmp_path / "m", parts_of(whole), compression=zipfile.ZIP_DEFLATED))
    huge = npy(np.zeros(3)).replace(b"(3,)", b"(9999999999999,)").replace(b" " * 13 + b"\n", b"\n")
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", parts_of(whole) | {"0.npy": huge}))
    with pytest.raises(ModelFileError):
        load(forge(tmp_path / "m", parts_of(whole) | {"content.json": b"[" * 10**6}))


def texts(tree):
    """Every dictionary in a text."""
    if isinstance(tree, dict):
        yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from texts(one)


def of_class(tree, name):
    return [one for one in texts(tree) if one.get("object") == name]


def swap(name, field, value):
    """A change to a field of the first object of a class."""
    return lambda tree: of_class(tree, name)[0]["fields"].update({field: value})


CODE = "a + {__import__('pathlib').Path('boom').touch()}"
CHANGES = {
    "an unknown class": lambda tree: of_class(tree, "Ridge")[0].update(object="Popen"),
    "a class by its module": lambda tree: of_class(tree, "Ridge")[0].update(object="subprocess.Popen"),
    "an unknown field": swap("Recipe", "extra", 1),
    "a field too few": lambda tree: of_class(tree, "Recipe")[0]["fields"].pop("scale"),
    "a field of another type": swap("Recipe", "intercept", "yes"),
    "an array that is a text": swap("Recipe", "centre", "zero"),
    "an array of texts": swap("Recipe", "scale", {"objects": ["a"], "shape": [1]}),
    "a prior that refuses": swap("Ridge", "rate", -1.0),
    "a member that is none": lambda tree: next(one for one in texts(tree) if "enum" in one).update(
        enum=["Ending", "X"]
    ),
    "a tag that is none": lambda tree: next(one for one in texts(tree) if "slice" in one).update(call=["os", "system"]),
    "a negative array": lambda tree: next(one for one in texts(tree) if "array" in one).update(array=-1),
    "code in the fixed part": swap("Parts", "fixed", CODE),
    "code in a group": lambda tree: [one["fields"].update(effects=CODE) for one in of_class(tree, "GroupTerm")],
    "code in a spline": lambda tree: [one["fields"].update(expression=CODE) for one in of_class(tree, "SplineTerm")],
    "code in a hidden term": lambda tree: next(
        one for one in texts(tree) if one.get("tuple") and one["tuple"][0] == "0 + b"
    ).update(tuple=[f"0 + {CODE}", {"dict": []}]),
    "a power without end": swap("Parts", "fixed", "(a + b + h + flag)**40"),
    "a power behind quotes": swap("Parts", "fixed", "a + '`' + (a + b + h + flag)**40 + '`'"),
    "products without end": swap("Parts", "fixed", "(a + b + h + flag):(a + b + h + flag)" + ":(a*b*h*flag)**5" * 9),
    "a constant without end": swap("Parts", "fixed", "I(a + (1, 2) * 100000000)"),
    "brackets without end": swap("Parts", "fixed", "(" * 5000 + "a" + ")" * 5000),
    "another formula": swap("Parts", "fixed", "a"),
    "coefficients of another model": swap("Plan", "names", {"tuple": ["a"]}),
    "more columns than there are": swap("Plan", "n_shown", 99),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_text_that_makes_no_sense_is_refused_and_nothing_is_executed(name, whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = parts_of(whole)
    tree = json.loads(parts["content.json"])
    before = json.dumps(tree)
    CHANGES[name](tree)
    assert json.dumps(tree) != before
    forge(tmp_path / "m", parts | {"content.json": json.dumps(tree).encode()})
    with pytest.raises(ModelFileError, match="contains no valid model"):
        load(tmp_path / "m")
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize("kind", ["missing in a formula", "slopes", "groups by number", "draws of gates", "wide"])
def test_arrays_of_other_shapes_are_refused(kind, shelf, tmp_path):
    path, data, _, _ = shelf[kind]
    parts = parts_of(path.read_bytes())
    for name in parts.keys() - {"manifest.json", "content.json"}:
        array = np.load(io.BytesIO(parts[name]))
        for changed in (np.concatenate([array, array]), array[:-1], array[None]):
            try:
                model = load(forge(tmp_path / "m", parts | {name: npy(changed)}))
            except ModelFileError:
                continue
            answers(model, data)  # a trace of another length, or what predictions do not ask


@pytest.mark.parametrize("kind", ["missing in a formula", "slopes", "groups by name and classes", "classes", "wide"])
def test_arrays_with_numbers_that_are_not_finite_give_no_probabilities(kind, shelf, tmp_path):
    path, data, _, _ = shelf[kind]
    parts, refused = parts_of(path.read_bytes()), 0
    for name in parts.keys() - {"manifest.json", "content.json"}:
        array = np.load(io.BytesIO(parts[name]))
        for number in (np.nan, np.inf, -np.inf) if array.dtype.kind == "f" and array.size else ():
            changed = array.copy()
            changed.ravel()[-1] = number
            try:
                model = load(forge(tmp_path / "m", parts | {name: npy(changed)}))
            except ModelFileError:
                refused += 1
                continue
            assert np.isfinite(model.predict_proba(data)).all()
    assert refused > 10


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
@pytest.mark.parametrize("kind", ["classes", "plain formula"])
def test_scales_that_are_not_positive_are_refused(kind, scale, shelf, tmp_path):
    parts = parts_of(shelf[kind][0].read_bytes())
    number = of_class(json.loads(parts["content.json"]), "Recipe")[0]["fields"]["scale"]["array"]
    array = np.load(io.BytesIO(parts[f"{number}.npy"]))
    with pytest.raises(ModelFileError, match="the scale of the columns does not match the rest"):
        load(forge(tmp_path / "m", parts | {f"{number}.npy": npy(np.full_like(array, scale))}))


def _twice(where, field):
    """A change that repeats the last entry of a tuple in every object of a class, one at a time."""
    return [lambda tree, k=k: _repeat(of_class(tree, where)[k]["fields"][field]["tuple"]) for k in (0, -1)]


def _repeat(entries):
    entries.append(copy.deepcopy(entries[-1]))


@pytest.mark.parametrize(("where", "field"), [("Levels", "parts"), ("FactorPlan", "columns"), ("Plan", "factors")])
@pytest.mark.parametrize("kind", ["slopes", "missing in a formula"])
def test_factors_of_other_lengths_are_refused(kind, where, field, shelf, tmp_path):
    """The plan is in the file twice: in the fit, and in what reads the formula's data."""
    parts = parts_of(shelf[kind][0].read_bytes())
    for change in _twice(where, field):
        tree = json.loads(parts["content.json"])
        change(tree)
        with pytest.raises(ModelFileError, match=r"does not match the rest|do not belong together"):
            load(forge(tmp_path / "m", parts | {"content.json": json.dumps(tree).encode()}))


@pytest.mark.parametrize(
    "change",
    [
        {"prior": "Ridge"},
        {"inference": 3},
        {"imputation": {"list": []}},
        {"standardize": "yes"},
        {"frog": None},
        {"group": "a"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_parameters_that_make_no_sense_are_refused(change, shelf, tmp_path):
    parts = parts_of(shelf["classes"][0].read_bytes())
    tree = json.loads(parts["content.json"])
    parameters = next(one for key, one in tree["dict"] if key == "parameters")
    parameters["dict"] = [pair for pair in parameters["dict"] if pair[0] not in change] + [*map(list, change.items())]
    with pytest.raises(ModelFileError, match="contains no valid model"):
        load(forge(tmp_path / "m", parts | {"content.json": json.dumps(tree).encode()}))


FUZZED = ["missing in a formula", "groups by name and classes", "draws of missing categories", "slopes", "transforms"]


def test_changes_inside_with_right_seals_are_refused_or_do_no_harm(shelf, tmp_path):
    for seed, kind in enumerate(FUZZED):
        path, data, _, _ = shelf[kind]
        refused, loaded, raw = judged(tmp_path / "m", parts_of(path.read_bytes()), data, seed, times=20)
        assert raw == []
        assert refused > 5
        assert refused + loaded == 20


@pytest.mark.long
def test_1500_changes_inside_with_right_seals_are_refused_or_do_no_harm(shelf, tmp_path):
    found = [
        judged(tmp_path / "m", parts_of(path.read_bytes()), data, seed, times=1500 // len(shelf) + 1)
        for seed, (path, data, _, _) in enumerate(shelf.values())
    ]
    assert [one for _, _, raw in found for one in raw] == []
    assert sum(refused for refused, _, _ in found) > 500


def fields_of(tree, name):
    """The fields of the first object of a class."""
    return of_class(tree, name)[0]["fields"]


def with_key(tree, old, new):
    """Give a transform's state another name."""
    fixed = dict(fields_of(tree, "Reader")["fixed"]["dict"])
    for pair in fixed["transforms"]["dict"]:
        pair[0] = new if pair[0] == old else pair[0]


UNFIT = [
    ("plain formula", lambda tree: fields_of(tree, "Parts").update(text="y ~ a * b"), "text of the formula"),
    ("plain formula", lambda tree: fields_of(tree, "Parts").update(text="b ~ a + y"), "contains no valid model"),
    ("all columns", lambda tree: fields_of(tree, "Parts").update(text="text"), "no valid model: A formula has one ~"),
    ("slopes", lambda tree: fields_of(tree, "Parts").update(text="y ~ a + (1 | g) + (1 | w)"), "text of the formula"),
    ("plain formula", lambda tree: fields_of(tree, "Calibration").update(offset={"float": "nan"}), "the calibration"),
    ("plain formula", lambda tree: fields_of(tree, "Calibration").update(bend=-1.0), "the calibration"),
    ("plain formula", lambda tree: fields_of(tree, "Spread").update(degrees=0.0), "the robust covariance"),
    ("missing", lambda tree: fields_of(tree, "InverseGamma").update(rate=-1.0), "the scale of"),
    ("transforms", lambda tree: with_key(tree, "scale(k)", "scale(a)"), "does not belong to it"),
]


@pytest.mark.parametrize(("kind", "change", "said"), UNFIT)
def test_parts_that_do_not_fit_together_are_refused_in_words(kind, change, said, shelf, tmp_path):
    parts = parts_of(shelf[kind][0].read_bytes())
    tree = json.loads(parts["content.json"])
    change(tree)
    with pytest.raises(ModelFileError, match=said):
        load(forge(tmp_path / "m", parts | {"content.json": json.dumps(tree).encode()}))


def test_a_classifier_with_another_group_is_refused(shelf, tmp_path):
    parts = parts_of(shelf["missing"][0].read_bytes())
    tree = json.loads(parts["content.json"])
    for pair in dict(tree["dict"])["parameters"]["dict"]:
        pair[1] = "" if pair[0] == "group" else pair[1]
    with pytest.raises(ModelFileError, match="its group '' differs from that of its models"):
        load(forge(tmp_path / "m", parts | {"content.json": json.dumps(tree).encode()}))


NUMBERS_FOR_TEXT = {"objects": [1, "b", 2.5], "shape": [3]}


def with_other_types(what, path, place):
    """A file in which levels that are text are partly numbers, or kinds of columns are none."""
    parts = parts_of(path.read_bytes())
    tree = json.loads(parts["content.json"])
    if what == "levels":
        for one in of_class(tree, "Levels"):
            one["fields"]["parts"] = {"tuple": [NUMBERS_FOR_TEXT]}
    else:
        kinds = of_class(tree, "Reader")[0]["fields"]["kinds"]["dict"]
        kinds[:] = [[name, None] for name, _ in kinds]
    return forge(place, parts | {"content.json": json.dumps(tree).encode()})


@pytest.mark.parametrize("what", ["levels", "kinds"])
def test_levels_and_kinds_of_another_type_are_refused(what, shelf, tmp_path):
    path = shelf["groups by name and classes" if what == "levels" else "missing categories"][0]
    with pytest.raises(ModelFileError, match="contains no valid model"):
        load(with_other_types(what, path, tmp_path / "m"))


def test_levels_that_are_not_looked_at_would_fail_when_they_are_used(shelf, tmp_path, monkeypatch):
    """The planted cause."""
    path, data, _, _ = shelf["groups by name and classes"]
    monkeypatch.setattr(consistency, "_are_labels", lambda labels: True)
    model = load(with_other_types("levels", path, tmp_path / "m"))
    with pytest.raises((TypeError, ValueError)):
        model.predict(data)


# Writing


@pytest.mark.parametrize("kind", ["Fit", "VBSVC"])
def test_only_models_are_replaced(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    clf = VBSVC().fit(X, X[:, 0] > 0)
    model, path = clf.fit_[0] if kind == "Fit" else clf, tmp_path / "model"
    path.touch()
    model.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # cut short, but a model
    model.save(str(path))
    assert path.read_bytes() == whole
    for other in (b"a,b\n1,2\n", b"\0", b" " * 5000 + b"vbsvm model"):
        path.write_bytes(other)
        with pytest.raises(FileExistsError, match="model exists, and holds no model: choose another name, or"):
            model.save(path)
        assert path.read_bytes() == other
    model.save(path, overwrite=True)
    assert path.read_bytes() == whole


def test_a_directory_that_is_not_there_is_named(shelf, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        shelf["classes"][3].save(tmp_path / "nowhere" / "m.vbsvm")


@pytest.mark.parametrize("broken", ["os.fsync", "zipfile.ZipFile.writestr", "os.replace", "pathlib.Path.replace"])
def test_a_save_that_fails_leaves_the_file_as_it_was(broken, shelf, tmp_path, monkeypatch):
    model = shelf["plain formula"][3]
    (tmp_path / "m.vbsvm").write_bytes(b"vbsvm model as it was")
    calls = []

    def full(*arguments, **options):
        calls.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(broken, full)
    if broken == "os.replace":
        monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="No space"):
        model.save(tmp_path / "m.vbsvm")
    assert calls
    assert (tmp_path / "m.vbsvm").read_bytes() == b"vbsvm model as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["m.vbsvm"]


def test_a_label_without_a_place_is_refused_in_words_and_writes_nothing(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    groups = np.array([Fraction(1, 2), Fraction(1, 3)], dtype=object)[np.arange(30) % 2]
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=pd.Series(groups, dtype=object))
    clf = VBSVC(group="g").fit(frame, X[:, 0] > 0)
    with pytest.raises(TypeError, match=r"levels\.parts\[0\]\[0\] contains Fraction, which can.t be stored"):
        clf.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed_and_a_path_may_be_text(shelf, tmp_path):
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    shelf["plain formula"][3].save(str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink()
    assert repr(load(str(tmp_path / "real"))) == repr(shelf["plain formula"][3])


def test_an_unfitted_classifier_is_not_saved(tmp_path):
    with pytest.raises(Exception, match="not fitted"):
        VBSVC().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("covariance", ["robust", "posterior"])
def test_a_selection_whose_standard_errors_were_asked_for_can_be_loaded(covariance, tmp_path):
    """Of columns that are left out, standard errors are not known."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 5))
    y = X @ [1.0, 0.6, 0.0, 0.0, -0.5] + rng.logistic(size=600) > 0
    model = VBSVC(prior=LaplaceZero()).fit(X, y)
    asked = model.fit_[0].summary(covariance=covariance)
    model.save(tmp_path / "model.vbsvm")
    pd.testing.assert_frame_equal(load(tmp_path / "model.vbsvm").fit_[0].summary(covariance=covariance), asked)
