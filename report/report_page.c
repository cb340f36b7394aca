#include "report/assets.h"
#include "report/escape.h"
#include "report/report.h"
#include "report/run_json.h"
#include "report/server_json.h"

/* The page may load nothing from the network, whatever an input file says. */
#define POLICY "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"

static void put(FILE *out, const unsigned char *bytes, size_t len)
{
    fwrite(bytes, 1, len, out);
}

static void write_head(FILE *out, const char *title)
{
    fputs(REPORT_PAGE_BEGINS
          "\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"" POLICY "\">\n<title>",
          out);
    escape_xml(out, title);
    fputs("</title>\n<style>\n", out);
    put(out, report_asset_uplot_css, report_asset_uplot_css_len);
    fputs("\n</style>\n<style>\n", out);
    put(out, report_asset_page_css, report_asset_page_css_len);
    fputs("</style>\n</head>\n<body>\n<main id=\"report\"></main>\n"
          "<noscript>The charts of this page are drawn by JavaScript.</noscript>\n",
          out);
}

static void write_scripts(FILE *out)
{
    fputs("<script>\n/*\n", out);
    put(out, report_asset_uplot_license, report_asset_uplot_license_len);
    fputs("*/\n", out);
    put(out, report_asset_uplot_js, report_asset_uplot_js_len);
    fputs("\n</script>\n<script>\n", out);
    put(out, report_asset_page_runs_js, report_asset_page_runs_js_len);
    put(out, report_asset_page_charts_js, report_asset_page_charts_js_len);
    put(out, report_asset_page_tables_js, report_asset_page_tables_js_len);
    put(out, report_asset_page_servers_js, report_asset_page_servers_js_len);
    put(out, report_asset_page_js, report_asset_page_js_len);
    fputs("</script>\n</body>\n</html>\n", out);
}

static tg_status write_page(const run_files *files, const char *title, FILE *out)
{
    json_t *runs;
    const bool servers = files->servers.count > 0;
    TG_TRY(servers ? server_json(&files->servers, &runs) : run_json(files, &runs));
    json_t *data = json_pack("{s:s, s:b, s:s?, s:O?, s:o}", "version", tg_version(), "servers",
                             (int)servers, "title", title, "notes", files->notes, "runs", runs);
    if (!data)
        return tg_fail(TG_E_NOMEM, "out of memory, or a file's name or the title is not UTF-8");
    write_head(out, title ? title : "telegrad report");
    fputs("<script type=\"application/json\" id=\"records\">", out);
    int failed = escape_json(out, data);
    fputs("</script>\n", out);
    write_scripts(out);
    json_decref(data);
    return failed && !ferror(out)
               ? tg_fail(TG_E_NOMEM, "out of memory: a page of %zu runs", files->count)
               : TG_OK;
}

tg_status report_page(char *const *paths, size_t count, const char *title, FILE *out)
{
    return run_files_draw(paths, count, write_page, title, out);
}
