"""The documentation site: ``nox -s docs`` builds it, warnings are errors.

Pages are the Markdown files of this folder. The gallery's are the scripts of ``docs/gallery/``, which run while the site is
built. The reference is written from the public names and their docstrings, into ``docs/reference/``; git ignores both results.
All of it as one text for assistants is ``llms-full.txt``, and its table of contents ``llms.txt``, beside the pages.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sphinx.util import logging

import agrad as ag
from agrad.ops import docs

docs.ORIGINALS = False  # the site links to them

HERE = Path(__file__).parent

project = "agrad"
author = "The agrad developers"
copyright = f"2026, {author}"
version = release = ag.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "gallery"]
default_role = "code"  # docstrings have names in single backticks
suppress_warnings = ["config.cache"]
add_module_names = False
toc_object_entries_show_parents = "hide"
autosummary_ignore_module_all = False
autosummary_filename_map = {"agrad.tensor": "agrad.tensor_function"}  # not Tensor's page, where case does not count
autodoc_typehints = "none"  # numpydoc's sections say it
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

#: The gallery's pages in order: first ten minutes, then what only agrad can do, then what others can do, too.
GALLERY = [
    "tutorial",
    "glm_on_zarr",
    "xarray_calibration",
    "sparse_inverse",
    "uncertainty",
    "shallow_water",
    "pca_by_chunks",
    "fit_per_cell",
    "sparse_jacobian",
    "compile_and_export",
    "gaussian_process",
    "kalman_filter",
    "hamiltonian_monte_carlo",
    "ode_adjoint",
    "implicit_differentiation",
    "per_sample_gradients",
    "deconvolution",
    "cnn_digits",
]


def in_gallery(name: str) -> int:
    """Return the position of a page in the gallery; one that `GALLERY` lacks is an error."""
    return GALLERY.index(name.removesuffix(".py"))


sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"\.py$",
    "capture_repr": (),
    "within_subsection_order": in_gallery,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "agrad"

html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars: dict[str, list[str]] = {"index": [], "auto_gallery/tutorial": []}

#: What the reference has a page for: the name that users write, and a line on it.
NAMESPACES = {
    "agrad": "Tensors, the functions of the array API standard, modes and settings.",
    "agrad.linalg": "Linear algebra.",
    "agrad.fft": "Discrete Fourier transforms.",
    "agrad.special": "Special functions, with SciPy's names.",
    "agrad.extra": "What the standard does not have.",
    "agrad.autograd": "Backward passes, functions of one's own, checks.",
    "agrad.autograd.functional": "Jacobians and Hessians as PyTorch's functions.",
    "agrad.autograd.forward_ad": "Forward mode.",
    "agrad.autograd.graph": "The graph, and what it keeps.",
    "agrad.func": "Transforms of functions, programs.",
    "agrad.nn": "Layers and losses.",
    "agrad.nn.functional": "The same as functions.",
    "agrad.nn.init": "Initial values.",
    "agrad.nn.utils": "What is done to all parameters together.",
    "agrad.nn.utils.parametrizations": "Weights computed of parameters.",
    "agrad.nn.utils.rnn": "Sequences of several lengths.",
    "agrad.optim": "Optimisers, and SciPy's minimisers.",
    "agrad.optim.lr_scheduler": "Learning rates.",
    "agrad.random": "Generators.",
    "agrad.scipy.integrate": "Differential equations.",
    "agrad.scipy.interpolate": "Splines and grids.",
    "agrad.scipy.linalg": "Matrix functions and equations that the standard does not have.",
    "agrad.scipy.optimize": "Roots and minima as functions of their parameters.",
    "agrad.scipy.signal": "Filters and convolutions.",
    "agrad.scipy.special": "All of :doc:`agrad.special <agrad.special>`, by SciPy's module; and two names more.",
    "agrad.scipy.stats": "Distributions, which have their methods in common.",
    "agrad.utils.checkpoint": "Computing again instead of keeping.",
    "agrad.utils.data": "Batches.",
    "agrad.compat.autograd": "HIPS autograd's interface; what differs is in :doc:`from HIPS autograd </from_autograd>`.",
    "agrad.cuda": "PyTorch's questions about CUDA.",
    "agrad.tree": "Containers of tensors.",
    "agrad.view": "Graphs, memory and profiles as pictures.",
    "agrad.testing": "The conformance kit, for authors of backends.",
    "agrad_dask": "The Dask backend's own functions: sources, functions of blocks, and one task per chunk.",
}
#: The members that each of them has a page for, filled in by `write_reference`.
DESCRIBED: dict[str, list[str]] = {}
autosummary_generate = [str(HERE / "reference" / f"{name}.rst") for name in NAMESPACES]


def names_of(module: Any) -> list[str]:
    """Return the public functions and classes of a namespace, in order."""
    public = [name for name in dir(module) if not name.startswith(("_", "agrad_"))]
    found = []
    for name in public:
        value = getattr(module, name)
        if (inspect.isroutine(value) or inspect.isclass(value)) and value.__doc__ and value.__module__ != "builtins":
            found.append(name)
    return sorted(found, key=str.lower)


def of_objects(module: Any) -> str:
    """Return the text on a namespace of objects: what each is, and then the methods of their classes."""
    objects = {member: getattr(module, member) for member in module.__all__}
    text = "".join(f".. autodata:: {member}\n   :no-value:\n\n" for member in objects)
    classes = dict.fromkeys(
        base
        for value in objects.values()
        for base in type(value).__mro__[:-1]
        if any(inspect.isfunction(part) and not name.startswith("_") for name, part in vars(base).items())
    )
    return text + "".join(f".. autoclass:: {one.__module__}.{one.__qualname__}()\n   :members:\n\n" for one in classes)


def write_reference(*_: Any) -> None:
    """Write a page for each namespace, from which autosummary makes one for each name; twins are described once."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    modules = {name: importlib.import_module(name) for name in NAMESPACES}
    elsewhere = {
        id(getattr(module, member)) for module in modules.values() if module is not ag for member in names_of(module)
    }
    # Names of PyTorch's that are not imported by a star: described where they come from, if that is another namespace.
    described = {id(getattr(ag, member)) for member in {*dir(ag)} - {*ag.__all__}} & elsewhere
    for name, line in NAMESPACES.items():
        module = modules[name]
        own = [member for member in names_of(module) if id(getattr(module, member)) not in described]
        if module is ag:
            described.clear()
        described.update(id(getattr(module, member)) for member in own)
        DESCRIBED[name] = own
        names = "\n".join(f"   {member}" for member in own)
        text = f"{name}\n{'=' * len(name)}\n\n{line}\n\n.. currentmodule:: {name}\n\n"
        text += f".. autosummary::\n   :toctree: names\n\n{names}\n" if own else of_objects(module)
        page = folder / f"{name}.rst"
        if not page.exists() or page.read_text("utf-8") != text:
            page.write_text(text, "utf-8")
    lines = "".join(f":doc:`{name}`\n   {line}\n\n" for name, line in NAMESPACES.items())
    pages = "\n".join(f"   {name}" for name in NAMESPACES)
    index = folder / "index.rst"
    text = f"Reference\n=========\n\nFrom the docstrings.\n\n{lines}.. toctree::\n   :hidden:\n\n{pages}\n"
    if not index.exists() or index.read_text("utf-8") != text:
        index.write_text(text, "utf-8")


def escape_stars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Keep shapes such as (..., *normalized_shape) from being read as emphasis."""
    lines[:] = [re.sub(r"(?:(?<=\()|(?<=, ))\*(?=[\w.]+[,)])", r"\\*", line) for line in lines]


def link_originals(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Link from the page of what has SciPy's name to SciPy's own."""
    short = obj.__doc__
    original = docs.original_of(short.name) if isinstance(short, docs.Referring) else None
    if original is not None:
        module, _, known = short.name.rpartition(".")
        there = f"{module}.{getattr(original, '__name__', known)}"  # `jn` is `jv`
        where = f"https://docs.scipy.org/doc/scipy/reference/generated/{there}.html"
        lines += ["", f"For the rest, see `{there} <{where}>`__.", ""]


def name_public_bases(app: Any, name: str, obj: Any, options: Any, bases: list[Any]) -> None:  # noqa: ARG001
    """Show public classes in place of private ones that a class is made of."""
    while private := [base for base in bases if getattr(base, "__name__", "").startswith("_")]:
        at = bases.index(private[0])
        bases[at : at + 1] = [base for base in private[0].__bases__ if base not in bases]
    bases[:] = [base for base in bases if base is not object] or [object]


#: Pages that are files of the repository's root.
OF_ROOT = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md"}


def name_files(app: Any, page: str, source: list[str]) -> None:  # noqa: ARG001
    """Show where a link leads that leaves this folder: to a file of the repository, which the site has no page for."""
    text = source[0]
    if page in OF_ROOT:
        text = (HERE.parent / OF_ROOT[page]).read_text("utf-8")
        text = re.sub(r"\]\((?!https?:|#)(?:docs/)?", lambda m: "](" if m[0].endswith("docs/") else "](../", text)
    source[0] = re.sub(
        r"\[([^\]]*)\]\(\.\./([^)]+)\)", lambda m: m[1] if m[1] == f"`{m[2]}`" else f"{m[1]} (`{m[2]}`)", text
    )


def names_as_text(namespace: str) -> str:
    """Return the reference of a namespace: signatures and docstrings, and of classes the first lines of their methods."""
    module, parts = importlib.import_module(namespace), []
    for member in DESCRIBED[namespace]:
        value = getattr(module, member)
        try:
            signature = str(inspect.signature(value))
        except (TypeError, ValueError):
            signature = ""
        parts.append(f"### {namespace}.{member}{signature}\n\n{inspect.getdoc(value)}\n")
        for name in dir(value) if inspect.isclass(value) else ():
            method = getattr(value, name)
            if not name.startswith("_") and inspect.isfunction(method) and method.__doc__:
                parts[-1] += (
                    f"\n- `{name}{inspect.signature(method)}`: {(inspect.getdoc(method) or '').splitlines()[0]}"
                )
    return f"# {namespace}\n\n{NAMESPACES[namespace]}\n\n" + "\n\n".join(parts)


def page_as_text(page: str) -> str:
    """Return the source of a page: Markdown, a program of the gallery, or a namespace's docstrings."""
    folder, _, name = page.rpartition("/")
    if folder == "reference":
        return names_as_text(name) if name in NAMESPACES else ""
    if folder == "auto_gallery":
        script = HERE / "gallery" / f"{name}.py"
        return f"# docs/gallery/{name}.py\n\n```python\n{script.read_text('utf-8')}```\n" if script.exists() else ""
    source = [(HERE / f"{page}.md").read_text("utf-8")]
    name_files(None, page, source)
    text = re.sub(
        r"^```\{include\} (\S+)\n.*?^```$",
        lambda m: (HERE / m[1]).read_text("utf-8"),
        source[0],
        flags=re.MULTILINE | re.DOTALL,
    )
    return re.sub(r"^```\{toctree\}.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)


def write_as_text(app: Any, exception: Exception | None) -> None:
    """Write all pages, in the order of the navigation, as one text, and the list of them."""
    if exception or app.builder.name != "html":
        return
    children, pages, waiting = app.env.toctree_includes, [], [app.config.root_doc]
    while waiting:
        page = waiting.pop()
        if page not in pages and not page.startswith("reference/names/"):
            pages.append(page)
            waiting += reversed(children.get(page, []))
    texts = {page: page_as_text(page) for page in pages}
    titles = {page: app.env.titles[page].astext() for page in pages}
    whole = [
        f"<!-- {page}.html: {titles[page]} -->\n\n{text.strip()}\n" for page, text in texts.items() if text.strip()
    ]
    contents = [f"- [{titles[page]}]({page}.html)" for page in pages]
    about = "> Automatic differentiation for any array library, with PyTorch's semantics over the Python array API standard.\n"
    out = Path(app.outdir)
    (out / "llms-full.txt").write_text("\n\n".join([f"<!-- agrad {release}, all pages -->", *whole]), "utf-8")
    (out / "llms.txt").write_text(
        f"# agrad {release}\n\n{about}\nAll pages as one text: [llms-full.txt](llms-full.txt)\n\n## Pages\n\n"
        + "\n".join(contents)
        + "\n",
        "utf-8",
    )


def check_links(app: Any, exception: Exception | None) -> None:
    """Warn of links within the site that lead nowhere, the written HTML's own among them."""
    if exception or app.builder.name != "html":
        return
    out = Path(app.outdir)
    pages = {page: page.read_text("utf-8") for page in out.rglob("*.html")}
    places = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    for page, text in pages.items():
        for link in set(re.findall(r'<(?:a|img)\b[^>]*?\b(?:href|src)="([^"]*)"', text)):
            path, _, place = unescape(unquote(link)).partition("#")
            if re.match(r"[a-z]+:", path):
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (place and target in places and place not in places[target]):
                logging.getLogger(__name__).warning("%s: the link to %s leads nowhere", page.relative_to(out), link)


def setup(app: Any) -> None:
    """Let Sphinx write the reference first, and all pages as one text and look at the links last."""
    sys.setrecursionlimit(5000)
    app.connect("build-finished", write_as_text, priority=400)
    app.connect("build-finished", check_links)
    app.connect("config-inited", write_reference)
    app.connect("source-read", name_files)
    app.connect("autodoc-process-bases", name_public_bases)
    app.connect("autodoc-process-docstring", escape_stars, priority=900)
    app.connect("autodoc-process-docstring", link_originals, priority=901)
