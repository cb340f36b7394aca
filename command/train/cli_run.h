/* One run of the trainer with its records and progress bar: train does one, compare and tune
 * several. */
#ifndef TG_CLI_CLI_RUN_H
#define TG_CLI_CLI_RUN_H

#include "command/train/records.h"
#include "telegrad/trace.h"

/* The trainer's job for the options, whose strings it borrows. trace: NULL for none. */
train_job run_job_of(const struct run_options *o, tg_trace *trace);

/* Train as `about` says. records: NULL for none. title: shown in front of the progress bar, "" for
 * none. trace: NULL for none. *result_p is set on success only; release it with run_result_free.
 * Records that can no longer be written stop the run, which saves: the result tells why. Errors
 * those of train_run, and of the records before the first step */
TG_NODISCARD tg_status run_job(const struct run_about *about, const char *title,
                               struct records *records, tg_trace *trace,
                               struct run_result *result_p);
/* Take over what is known of a run when it starts. Release the result also after an error. Errors
 * TG_E_NOMEM */
TG_NODISCARD tg_status run_result_start(struct run_result *result, const train_start_info *info);
void run_result_free(struct run_result *result);
/* Note why a file could not be written, from tg_error(), if it is the first. */
void run_result_note(struct run_result *result, tg_status status);
/* For commands that fail then. Errors TG_E_IO, with the reason; it has then freed the result */
TG_NODISCARD tg_status run_result_written(struct run_result *result);

/* Warn, on ranks other than 0 that met over a network, of options that have an effect on rank 0
 * only. */
void run_warn_of_unused(const struct launch *l, const struct run_options *o);

struct run_length {
    uint64_t steps, steps_per_epoch;
};
/* Make a session of a run, alone, so that a combination that is not allowed is found before it
 * trains. data: as for train_plan. Errors those of train_plan; TG_E_STOPPED: a signal came */
TG_NODISCARD tg_status run_check_session(const struct run_options *o, const char *data, int world,
                                         struct run_length *length_p);

/* Check that --resume DIR names a folder. Errors TG_E_IO */
TG_NODISCARD tg_status run_check_resume(const char *dir);

/* Warn if TELEGRAD_DATA names no folder. */
void run_warn_of_data_place(void);

/* The data that the options name; default: mnist if its files are found, else glyphs, with a
 * remark. */
const char *run_data_name(const struct run_options *o);
TG_NODISCARD tg_status run_open_data(const struct run_options *o, train_data **data_p);

#endif
