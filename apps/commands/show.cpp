// The command show: a results file as tables, any metric and k.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "commands/compare/comparison_tables.hpp"
#include "core/text/text_table.hpp"
#include "report/cells/cells_json.hpp"
#include "report/cells/cells_text.hpp"
#include "report/spectra/models_view.hpp"
#include "report/spectra/ranks_table.hpp"
#include "report/spectra/spectra_headline.hpp"
#include "report/spectra/spectra_tables.hpp"
#include "results/runs/run_status.hpp"
#include "results/schema/schema.hpp"
#include "results/view/results_view.hpp"

#include <fmt/format.h>

#include <limits>
#include <memory>
#include <optional>
#include <unistd.h>

namespace vindex::apps {

namespace {

struct ShowFlags {
  std::vector<std::string> paths;
  std::string path, metric, layers, blocks, roles, sort_by, table;
  std::optional<std::int32_t> k;
  std::optional<std::size_t> top;
  bool experts = false, ascending = false, json = false, wide = false, per_layer = false;

  model::Selection selection() const { return model::parse_selection(layers, blocks, roles, ""); }
  /// What standard output has room for.
  std::size_t width() const {
    return wide ? std::numeric_limits<std::size_t>::max() : text_width(STDOUT_FILENO);
  }
  /// The same for tables of names, which go whole to another program.
  std::size_t names_width() const {
    return ::isatty(STDOUT_FILENO) == 1 ? width() : std::numeric_limits<std::size_t>::max();
  }
  report::TopRows top_rows() const {
    return {.count = top.value_or(0), .by = sort_by, .is_ascending = ascending};
  }
};

std::string text_of(const report::SpectraView& shown, const report::ShowQuery& query,
                    const ShowFlags& flags) {
  const std::string out = report::spectra_headline(shown);
  if (flags.top) {
    return out + report::top_text(shown, *flags.top, flags.ascending, flags.names_width());
  }
  if (shown.is_adapter && flags.metric.empty() && !flags.k && !flags.experts) {
    // The metric's line is not of this table.
    const std::size_t last = out.rfind('\n', out.size() - 2);
    return out.substr(0, last + 1) + report::ranks_text(flags.path, query, flags.width());
  }
  return out + (flags.experts ? report::experts_text(shown, flags.width())
                              : report::groups_text(shown, flags.width()));
}

std::string json_of(const report::SpectraView& shown, const ShowFlags& flags) {
  if (flags.top) {
    return report::top_json(shown, *flags.top, flags.ascending);
  }
  return flags.experts ? report::experts_json(shown) : report::groups_json(shown);
}

void show_spectra(const ShowFlags& flags) {
  const report::ShowQuery query = {.table = model::table_of_name(flags.table),
                                   .metric = flags.metric,
                                   .k = flags.k,
                                   .selection = flags.selection(),
                                   .sort_by = flags.sort_by};
  const report::SpectraView shown = report::read_spectra_view(flags.path, query);
  print_result(flags.json ? json_of(shown, flags) : text_of(shown, query, flags));
}

/// What only files of spectra have.
void refuse_metric_flags(const ShowFlags& flags, results::FileSchema schema) {
  if (!flags.metric.empty() || flags.k || flags.experts || !flags.table.empty()) {
    throw UsageError("E-SHOW-KIND",
                     fmt::format("{} is a file of `vindex {}`: --layer, --block, --role, --top, "
                                 "--by, --per-layer, --wide and --json go with it",
                                 printable(flags.path), results::writing_command(schema)));
  }
}

/// A line with paths, broken between them.
std::string one_paragraph(const std::string& line, const ShowFlags& flags) {
  return wrapped_text(line.substr(0, line.find('\n')), flags.width(), 2) + "\n";
}

/// Pairs in groups; single ones are rows of cells.
void show_pairs(const ShowFlags& flags) {
  commands::ComparisonSummary compared =
      commands::read_comparison(flags.path, flags.selection(), flags.per_layer);
  if (flags.top) {
    commands::keep_top_groups(compared, *flags.top, flags.sort_by, flags.ascending);
  }
  print_result(flags.json ? commands::comparison_json(compared)
                          : one_paragraph(report::cells_headline(compared), flags) +
                                commands::comparison_text(compared, flags.width()));
}

/// Files of compare, experts, cka, activations and routing: one table of their own each.
void show_cells(const ShowFlags& flags, results::FileSchema schema) {
  refuse_metric_flags(flags, schema);
  if (schema == results::FileSchema::kCompare && (!flags.top || flags.per_layer)) {
    show_pairs(flags);
    return;
  }
  results::ResultsView shown = results::read_view(flags.path, flags.selection());
  report::TopRows top = flags.top_rows();
  if (flags.top) {
    report::keep_top(shown, top);
  }
  const bool has_names = flags.top && schema == results::FileSchema::kCompare;
  print_result(flags.json ? report::cells_json(shown, top)
                          : one_paragraph(report::cells_headline(shown), flags) +
                                report::cells_text(
                                    shown, has_names ? flags.names_width() : flags.width(), top));
}

/// Several files of spectra side by side.
void show_models(const ShowFlags& flags) {
  if (flags.top || flags.experts) {
    throw UsageError("E-SHOW-SEVERAL", "--top and --experts are of one file: name one");
  }
  const auto models = report::read_model_views(
      flags.paths,
      {.table = model::table_of_name(flags.table),
       .metric = flags.metric,
       .k = flags.k,
       .selection = model::parse_selection(flags.layers, flags.blocks, flags.roles, ""),
       .sort_by = {}});
  print_result(flags.json ? report::models_json(models)
                          : report::models_text(models, text_width(STDOUT_FILENO)));
}

}  // namespace

void add_show(Command& app, Session& session) {
  auto flags = std::make_shared<ShowFlags>();
  Command& command = app.add_command(
      "show",
      "Print tables of a results file: any metric beside noise\n\n"
      "Examples:\n"
      "  vindex show OUT.h5                     the table that measure ends with\n"
      "  vindex show OUT.h5 --metric var_at_k --k 8 --role down_proj --layer 1-20\n"
      "  vindex show OUT.h5 --metric stable_rank --experts    outlying experts\n"
      "  vindex show OUT.h5 --top 10            farthest above their null\n"
      "  vindex show OUT.h5 --top 10 --by sigma_min --ascending --json\n"
      "  vindex show pairs.h5 --per-layer       which layers a quantiser hurt\n"
      "  vindex show pairs.h5 --top 10 --by relative_error --role down_proj\n"
      "  vindex show experts.h5 --layer 3       which experts stand out\n"
      "  vindex show A.h5 B.h5 C.h5 --metric stable_rank     models by roles\n"
      "noise: what independent entries of that shape give; flip: the same weights with random "
      "signs (measure --null signflip); z: the difference in their standard deviations. A "
      "statistic that the terminal has no room for is left out together with its null; --wide "
      "and --json have all. Works during a run. "
      "Files of compare, experts, cka, activations and routing show their own tables.");
  command
      .add_results("file", flags->paths,
                   "Results file (its parts count too); several of measure: models by roles")
      ->required();
  command
      .add_value("--metric", flags->metric,
                 "A metric of docs/measuring/metrics.md; var@8 is var_at_k at 8")
      ->default_str("var_at_k");
  command.add_value("--k", flags->k, "Of var_at_k: 1 2 4 ... 256 (default: an informative one)");
  add_layers(command, flags->layers);
  add_blocks(command, flags->blocks);
  add_roles(command, flags->roles);
  command
      .add_value("--table", flags->table,
                 "matrix, imatrix (measure --imatrix) or product (--heads, --lora); without it "
                 "the first that has rows, of an adapter its products")
      ->check(CLI::IsMember({"matrix", "imatrix", "product"}));
  CLI::Option* experts =
      command.add_flag("--experts", flags->experts,
                       "The outlying experts of every layer and role: the lowest and the highest");
  CLI::Option* top = command.add_value("--top", flags->top, "The first N rows by a column")
                         ->check(CLI::Range(1, std::numeric_limits<std::int32_t>::max()))
                         ->excludes(experts);
  command
      .add_value("--by", flags->sort_by,
                 "Column for --top: any of the file's table, or NAME_ratio to its null; of "
                 "measure also value, null, difference, ratio, signflip, z of the metric "
                 "(default there: ratio, or value without a null)")
      ->needs(top);
  command.add_flag("--ascending", flags->ascending, "Smallest first")->needs(top);
  command.add_flag(
      "--per-layer", flags->per_layer,
      "Of compare: a row for each layer rather than each role (others have that); with "
      "--top N the layers with the largest error for their kind");
  command.add_flag("--wide", flags->wide,
                   "Every column and whole names, however wide the terminal");
  command.add_flag("--json", flags->json, "One JSON document (vindex-show/1), numbers unrounded");
  command.runs(session, [flags] {
    if (flags->paths.size() > 1) {
      show_models(*flags);
      return Ending();
    }
    flags->path = flags->paths.front();
    const results::FileSchema schema = results::schema_at(flags->path);
    if (schema == results::FileSchema::kResults) {
      show_spectra(*flags);
    } else {
      show_cells(*flags, schema);
    }
    return Ending();
  });
}

}  // namespace vindex::apps
