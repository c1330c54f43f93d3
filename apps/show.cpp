// The command show: a results file as tables, any metric and k.
#include "verbs.hpp"

#include "jobs/compare/compared.hpp"
#include "report/cells_text.hpp"
#include "report/shown_models.hpp"
#include "report/shown_spectra.hpp"
#include "results/run_store.hpp"
#include "results/shown_cells.hpp"

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
  bool experts = false, ascending = false, json = false;
};

std::string text_of(const report::Shown& shown, const ShowFlags& flags) {
  const std::size_t width = text_width(STDOUT_FILENO);
  std::string out = report::shown_headline(shown);
  if (flags.top) {
    // Names go whole to another program.
    const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    return out + report::top_text(shown, *flags.top, flags.ascending,
                                  is_terminal ? width : std::numeric_limits<std::size_t>::max());
  }
  return out +
         (flags.experts ? report::experts_text(shown, width) : report::groups_text(shown, width));
}

std::string json_of(const report::Shown& shown, const ShowFlags& flags) {
  if (flags.top) {
    return report::top_json(shown, *flags.top, flags.ascending);
  }
  return flags.experts ? report::experts_json(shown) : report::groups_json(shown);
}

/// What only files of spectra have.
bool has_metric_flags(const ShowFlags& flags) {
  return !flags.metric.empty() || flags.k || flags.top || flags.experts || !flags.table.empty();
}

/// A file of pairs has one table, which has no metrics to choose from.
void show_pairs(const ShowFlags& flags) {
  if (has_metric_flags(flags) || !flags.layers.empty() || !flags.blocks.empty() ||
      !flags.roles.empty()) {
    throw UsageError("E-SHOW-PAIRS",
                     printable(flags.path) +
                         " is a file of `vindex compare`: only --json goes with it; /pair/ in it "
                         "has every row");
  }
  const jobs::Compared compared = jobs::read_compared(flags.path);
  print_result(flags.json ? jobs::compared_json(compared)
                          : fmt::format("{}: {} of {} pairs compared ({}), {} beside {}\n",
                                        printable(compared.path), compared.compared, compared.pairs,
                                        compared.state, compared.model_a, compared.model_b) +
                                jobs::compared_text(compared, text_width(STDOUT_FILENO)));
}

/// Files of experts, cka, activations and routing: one table of their own each.
void show_cells(const ShowFlags& flags, results::FileSchema schema) {
  if (has_metric_flags(flags)) {
    throw UsageError("E-SHOW-KIND",
                     fmt::format("{} is a file of `vindex {}`: --layers, --blocks, --roles and "
                                 "--json go with it",
                                 printable(flags.path), results::writing_verb(schema)));
  }
  const results::ShownCells shown = results::read_shown_cells(
      flags.path, model::parse_selection(flags.layers, flags.blocks, flags.roles, ""));
  print_result(flags.json ? report::cells_json(shown)
                          : report::cells_headline(shown) +
                                report::cells_text(shown, text_width(STDOUT_FILENO)));
}

/// Several files of spectra side by side.
void show_models(const ShowFlags& flags) {
  if (flags.top || flags.experts) {
    throw UsageError("E-SHOW-SEVERAL", "--top and --experts are of one file: name one");
  }
  const auto models = report::read_shown_models(
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

void add_show(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ShowFlags>();
  CLI::App* verb = app.add_subcommand(
      "show",
      "Print tables of a results file: any metric beside noise\n\n"
      "Examples:\n"
      "  vindex show OUT.h5                     the table that measure ends with\n"
      "  vindex show OUT.h5 --metric var_at_k --k 8 --role down_proj --layer 1-20\n"
      "  vindex show OUT.h5 --metric stable_rank --experts    outlying experts\n"
      "  vindex show OUT.h5 --top 10            farthest above their null\n"
      "  vindex show OUT.h5 --top 10 --by sigma_min --ascending --json\n"
      "  vindex show A.h5 B.h5 C.h5 --metric stable_rank     models by roles\n"
      "noise: what independent entries of that shape give; flip: the same weights with random "
      "signs (measure --null signflip); z: the difference in their standard deviations. "
      "What the terminal has no room for (quartiles first) is in --json. Works during a run. "
      "Files of compare, experts, cka, activations and routing show their own tables.");
  verb->add_option("file", flags->paths,
                   "Results file (its parts count too); several of measure: models by roles")
      ->required();
  verb->add_option("--metric", flags->metric, "A metric of docs/metrics.md; var@8 is var_at_k at 8")
      ->default_str("var_at_k");
  verb->add_option("--k", flags->k, "Of var_at_k: 1 2 4 ... 256 (default: an informative one)");
  verb->add_option("--layer,--layers", flags->layers, "Layers, for example 0,1,15-20");
  verb->add_option("--block,--blocks", flags->blocks, "Blocks, for example routed_expert,router");
  verb->add_option("--role,--roles", flags->roles, "Roles, for example down_proj,gate_up_proj");
  verb->add_option("--table", flags->table,
                   "matrix, imatrix (measure --imatrix) or product (--heads, --lora); without it "
                   "the first that has rows")
      ->check(CLI::IsMember({"matrix", "imatrix", "product"}));
  CLI::Option* experts =
      verb->add_flag("--experts", flags->experts,
                     "The outlying experts of every layer and role: the lowest and the highest");
  CLI::Option* top = verb->add_option("--top", flags->top, "The first N matrices by a column")
                         ->check(CLI::Range(1, std::numeric_limits<std::int32_t>::max()))
                         ->excludes(experts);
  verb->add_option("--by", flags->sort_by,
                   "Column for --top: value, null, difference, ratio, signflip, z, or any of "
                   "/matrix/, or METRIC_ratio (default: ratio, or value without a null)")
      ->needs(top);
  verb->add_flag("--ascending", flags->ascending, "Smallest first")->needs(top);
  verb->add_flag("--json", flags->json, "One JSON document (vindex-show/1), numbers unrounded");
  on_choice(*verb, session, [flags] {
    if (flags->paths.size() > 1) {
      show_models(*flags);
      return Ending();
    }
    flags->path = flags->paths.front();
    const results::FileSchema schema = results::schema_at(flags->path);
    if (schema == results::FileSchema::kCompare) {
      show_pairs(*flags);
      return Ending();
    }
    if (schema != results::FileSchema::kResults) {
      show_cells(*flags, schema);
      return Ending();
    }
    const report::Shown shown = report::read_shown(
        flags->path,
        {.table = model::table_of_name(flags->table),
         .metric = flags->metric,
         .k = flags->k,
         .selection = model::parse_selection(flags->layers, flags->blocks, flags->roles, ""),
         .sort_by = flags->sort_by});
    print_result(flags->json ? json_of(shown, *flags) : text_of(shown, *flags));
    return Ending();
  });
}

}  // namespace vindex::apps
