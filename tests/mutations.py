"""Model files with changes inside, and seals that fit: what somebody might make who knows the format."""

import copy
import hashlib
import io
import json
import warnings
import zipfile

import numpy as np

from saved_models import answers
from vbsvm import ModelFileError, load

OTHERS = [None, True, 0, -1, 2.5, 10**9, "", "text", {"list": []}, {"tuple": []}, {"tuple": ["a", 1]}, {"dict": []}]
OTHERS += [{"set": ["a"]}, {"float": "nan"}, {"slice": [0, 1, None]}, {"objects": [None, "a"], "shape": [2]}]
RAW = ("broadcast", "unpack", "operand", "zip()", "shape", "dimension", "convert", "invalid literal")
DTYPES = ["f8", "i8", "?", "U3", "S2", "M8[D]", "f4"]


def parts_of(whole):
    """The parts of a file by name."""
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        return {name: file.read(name) for name in file.namelist()}


def forge(path, parts, *, more=(), compression=zipfile.ZIP_STORED, **head):
    """Write parts as they are, with a manifest that fits them."""
    manifest = json.loads(parts["manifest.json"]) | head
    inner = {name: part for name, part in parts.items() if name != "manifest.json"}
    manifest["parts"] = {name: hashlib.sha256(part).hexdigest() for name, part in inner.items()}
    text = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, part in [("manifest.json", text), *inner.items(), *more]:
            file.writestr(name, part)
        file.comment = b"sha256:" + hashlib.sha256(text).hexdigest().encode()
    return path


def npy(array, **options):
    """An array as a part."""
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def places(tree):
    """Every place in a text where a value may be exchanged: its container, and its key there."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, one in pairs:
        yield tree, key
        yield from places(one)


def mutated(parts, rng):
    """The parts with one value of the text, or one array, exchanged for another."""
    names = [name for name in parts if name.endswith(".npy")]
    if names and rng.random() < 0.3:
        name = names[rng.integers(len(names))]
        return parts | {name: npy(_other_array(np.load(io.BytesIO(parts[name])), rng))}
    tree = json.loads(parts["content.json"])
    found = list(places(tree))
    container, key = found[rng.integers(len(found))]
    if rng.random() < 0.5:
        container[key] = copy.deepcopy(OTHERS[rng.integers(len(OTHERS))])
    elif rng.random() < 0.5:  # a value from elsewhere in the file
        elsewhere, at = found[rng.integers(len(found))]
        container[key] = copy.deepcopy(elsewhere[at])
    elif isinstance(container, dict):
        del container[key]
    else:
        container.insert(key, copy.deepcopy(container[key]))
    return parts | {"content.json": json.dumps(tree).encode()}


def _other_array(array, rng):
    match rng.integers(0, 4):
        case 0:
            return np.zeros(array.shape, DTYPES[rng.integers(len(DTYPES))])
        case 1:
            return array.ravel()[: rng.integers(0, array.size + 1)]
        case 2:
            return np.stack([array, array])
        case _:
            changed = array.copy()
            if array.dtype.kind in "biuf" and array.size:
                changed.ravel()[rng.integers(array.size)] = [0, 1, 7][rng.integers(3)]
            return changed


def judged(path, parts, data, seed, times):
    """How often mutated files were refused and loaded; whatever else was raised, by what was done."""
    rng, refused, loaded, raw = np.random.default_rng(seed), 0, 0, []
    for k in range(times):
        forge(path, mutated(parts, rng))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                model = load(path)
                try:
                    answers(model, data)
                    repr(model)
                    loaded += 1
                except ValueError as error:  # numbers out of range are said in words; shapes that do not agree are not
                    if isinstance(error, np.linalg.LinAlgError) or any(word in str(error) for word in RAW):
                        raw.append((k, repr(error)))
                    loaded += 1
        except ModelFileError as error:
            refused += 1
            if any(word in str(error) for word in RAW):
                raw.append((k, repr(error)))
        except Exception as error:
            raw.append((k, repr(error)))
    return refused, loaded, raw
