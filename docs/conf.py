# SPDX-License-Identifier: MIT
# The site: these pages, the header and what the command says of itself. tools/site.sh copies all of it into one folder,
# adds the pages that are generated (commands, header) and builds there, warnings as errors.
project = "Propane"
author = "the Propane authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["requirements.txt"]
html_theme = "furo"
html_title = "Propane"
html_static_path = []
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "sphinx"
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]  # MIL and shell sessions are shown as they are
