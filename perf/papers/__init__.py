"""Protocols of the papers, one module a paper, and the pages of their targets."""

PAPERS = {  # the modules here, and their targets, each a table or a figure
    "exrm": ("exrm-table1", "exrm-table2", "exrm-table3", "exrm-figure1"),
    "drm": ("drm-table1", "drm-figure1"),
    "adaboost_nc": tuple(f"adaboost-nc-figure{k}" for k in range(1, 5)),
    "cqboost": ("cqboost-table1",),
    "ensemble_chapter": ("ensemble-figures",),
}
TARGETS = {target: paper for paper, targets in PAPERS.items() for target in targets}
