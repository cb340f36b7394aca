# Pictures of runs (report): the static library tg_report on jansson and zlib, which holds the page's parts and the charts'
# library (third_party/uplot).
set(assets
    page_css=${PROJECT_SOURCE_DIR}/report/page.css
    page_runs_js=${PROJECT_SOURCE_DIR}/report/page_runs.js
    page_charts_js=${PROJECT_SOURCE_DIR}/report/page_charts.js
    page_tables_js=${PROJECT_SOURCE_DIR}/report/page_tables.js
    page_servers_js=${PROJECT_SOURCE_DIR}/report/page_servers.js
    page_js=${PROJECT_SOURCE_DIR}/report/page.js
    uplot_css=${PROJECT_SOURCE_DIR}/third_party/uplot/uPlot.min.css
    uplot_js=${PROJECT_SOURCE_DIR}/third_party/uplot/uPlot.iife.min.js
    uplot_license=${PROJECT_SOURCE_DIR}/third_party/uplot/LICENSE)
list(TRANSFORM assets REPLACE "^[a-z_]+=" "" OUTPUT_VARIABLE asset_files)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/report_assets.c
    COMMAND ${CMAKE_COMMAND} "-DFILES=${assets}" -DOUT=${PROJECT_BINARY_DIR}/report_assets.c
        -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${asset_files} cmake/embed.cmake VERBATIM)

file(GLOB report_sources CONFIGURE_DEPENDS report/*.c)
file(GLOB report_tests CONFIGURE_DEPENDS report/*_test.c)
if(report_tests)
    list(REMOVE_ITEM report_sources ${report_tests})
endif()
add_library(tg_report STATIC ${report_sources} ${PROJECT_BINARY_DIR}/report_assets.c)
target_link_libraries(tg_report PRIVATE tg_program_flags telegrad_static ZLIB::ZLIB m PUBLIC tg_jansson)

if(NOT TG_TESTS)
    return()
endif()
tg_program_tests(SOURCES ${report_tests} LIBRARIES tg_report ZLIB::ZLIB LABELS unit)
