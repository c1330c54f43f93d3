# Lists what a page of `vindex report` is made of, and makes ${page_assets}: a source that holds these files as they are
# (page_assets.hpp). A file of this folder that is not in the list is not in the program.
find_path(VINDEX_VEGA vega-view.min.js PATHS /usr/share/javascript/vega)
find_path(VINDEX_TOPOJSON topojson-client.min.js PATHS /usr/share/javascript/topojson-client)
if(NOT VINDEX_VEGA OR NOT VINDEX_TOPOJSON)
  message(FATAL_ERROR "The charts of `vindex report` need Vega 5: install the Debian package libjs-vega, or set VINDEX_VEGA "
    "and VINDEX_TOPOJSON to the folders of vega-view.min.js and topojson-client.min.js.")
endif()

set(page ${CMAKE_CURRENT_LIST_DIR})
set(asset_entries "")
set(asset_blobs "")
set(asset_files "")
set(asset_count 0)
# page_asset(<kind of page_assets.hpp> <name> <path>)
macro(page_asset kind name path)
  string(APPEND asset_blobs "VINDEX_ASSET(${asset_count}, \"${path}\")\n")
  string(APPEND asset_entries "    VINDEX_ENTRY(${kind}, \"${name}\", ${asset_count}),\n")
  list(APPEND asset_files ${path})
  math(EXPR asset_count "${asset_count} + 1")
endmacro()

page_asset(kTemplate page.html ${page}/assets/page.html)
page_asset(kNotice notices.txt ${page}/assets/notices.txt)
page_asset(kStyle page.css ${page}/assets/page.css)
page_asset(kStyle figure.css ${page}/assets/figure.css)
page_asset(kScript require.js ${page}/assets/require.js)
# What charts of these specifications need: no maps, no layouts of graphs and trees.
foreach(module util statistics time format loader canvas scale scenegraph dataflow expression event-selector functions selection
               runtime view parser transforms view-transforms encode label interpreter)
  page_asset(kModule vega-${module} ${VINDEX_VEGA}/vega-${module}.min.js)
endforeach()
foreach(module assets/vega assets/data assets/tools assets/chart assets/measure assets/spectra assets/main sections/section_overview
               sections/section_layers sections/section_spectrum sections/section_experts sections/section_table
               sections/section_trust sections/section_provenance sections/sections)
  get_filename_component(name ${module} NAME)
  page_asset(kModule ${name} ${page}/${module}.js)
endforeach()
# Files of other kinds than those of `vindex measure`.
foreach(module assets/cells assets/figure sections/section_compare sections/section_experts_similarity sections/section_cka
               sections/section_routing sections/section_activations)
  get_filename_component(name ${module} NAME)
  page_asset(kModule ${name} ${page}/${module}.js)
endforeach()
foreach(specification grid lines overview layers spectrum_rank spectrum_density experts)
  page_asset(kSpecification ${specification}.vg.json ${page}/charts/${specification}.vg.json)
endforeach()

set(page_assets ${CMAKE_CURRENT_BINARY_DIR}/page_assets.cpp)
configure_file(${page}/page_assets.cpp.in ${page_assets} @ONLY)
# The bytes are the assembler's to find, which no dependency scan sees.
set_source_files_properties(${page_assets} PROPERTIES OBJECT_DEPENDS "${asset_files}" SKIP_UNITY_BUILD_INCLUSION ON)
