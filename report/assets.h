/* The parts of a page, as bytes. cmake/embed.cmake makes them from the files of the same names. */
#ifndef TG_REPORT_ASSETS_H
#define TG_REPORT_ASSETS_H

#include <stddef.h>

extern const unsigned char report_asset_page_css[], report_asset_page_js[],
    report_asset_page_runs_js[], report_asset_page_charts_js[], report_asset_page_tables_js[],
    report_asset_page_servers_js[], report_asset_uplot_css[], report_asset_uplot_js[],
    report_asset_uplot_license[];
extern const size_t report_asset_page_css_len, report_asset_page_js_len,
    report_asset_page_runs_js_len, report_asset_page_charts_js_len, report_asset_page_tables_js_len,
    report_asset_page_servers_js_len, report_asset_uplot_css_len, report_asset_uplot_js_len,
    report_asset_uplot_license_len;

#endif
