/** What definitions look like, by language. Every pattern is meant for one line of at most a few hundred characters. */

/** 0: what the file offers to others; 1: what else stands at its top level; 2: members. */
export type Rank = 0 | 1 | 2;
export const RANKS: readonly Rank[] = [0, 1, 2];

/** A pattern has the keyword, if any, in its group `kind`, the name in `name`; `call` is set where brackets follow. */
type Rule = [pattern: RegExp, rank: Rank];

export interface Language {
  rules: Rule[];
  /** Headings of the ranks in the packed form; none where the entries speak for themselves. */
  headings?: [string, string, string];
  /** A line that begins or ends a block in which nothing counts. */
  fence?: RegExp;
}

/** One level of indentation, and what no definition begins with. */
const ONE_IN = "(?:\\t| {2}| {4})";
const NO_STATEMENT =
  "(?!(?:if|for|while|switch|catch|return|function|with|else|do|try|new|throw|await|typeof|case)\\b)";
const MEMBER_WORDS = "(?:public|private|protected|static|async|override|get|set|abstract)";

const SCRIPT: Language = {
  headings: ["exports", "local", "members"],
  rules: [
    [
      /^export\s+(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?<kind>function\*?|class|interface|type|enum|const enum|const|let|var|namespace)\s+(?<name>[\w$]+)(?<call>\s*(?:<[^()]{0,80}>)?\s*(?:=\s*(?:async\s*)?)?\()?/,
      0,
    ],
    [/^export\s+(?<name>default\b.{0,60})/, 0],
    // What is defined elsewhere: the keyword tells it from a definition.
    [/^(?<kind>export(?:\s+type)?)\s+(?<name>(?:\*|\{[^}]{0,100}\}?)[^;]{0,80})/, 0],
    [/^module\.exports(?:\.(?<name>[\w$]+))?\s*=/, 0],
    [
      /^(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?<kind>function\*?|class|interface|type|enum|namespace)\s+(?<name>[\w$]+)(?<call>\s*(?:<[^()]{0,80}>)?\()?/,
      1,
    ],
    [/^(?:const|let|var)\s+(?<name>[\w$]+)\b/, 1],
    [/^(?<name>(?:describe|test|it|suite)(?:\.\w+)?\(\s*["'`].{1,80})/, 1],
    [/^(?:\t| {2,4})(?<name>(?:describe|test|it)(?:\.\w+)?\(\s*["'`].{1,80})/, 2],
    [new RegExp(`^${ONE_IN}(?:${MEMBER_WORDS}\\s+){1,4}(?<name>[#\\w$]+)(?<call>\\s*(?:<[^()]{0,80}>)?\\()`), 2],
    // Without a modifier only what opens a body is a member: the rest are calls.
    [
      new RegExp(`^${ONE_IN}${NO_STATEMENT}(?<name>[#\\w$]+)(?<call>\\s*(?:<[^()]{0,80}>)?\\()(?!.*=>\\s*\\{$).*\\{$`),
      2,
    ],
  ],
};

const PYTHON: Language = {
  headings: ["defines", "private", "members"],
  rules: [
    [/^(?:async\s+)?(?:def|(?<kind>class))\s+(?<name>[A-Za-z]\w*)(?<call>\s*\()?/, 0],
    [/^(?:async\s+)?(?:def|(?<kind>class))\s+(?<name>_\w*)(?<call>\s*\()?/, 1],
    [/^(?<name>[A-Z][A-Z0-9_]{2,})\s*[:=]/, 1],
    [/^(?: {4}|\t)(?:async\s+)?def\s+(?<name>\w+)(?<call>\()/, 2],
  ],
};

const GO: Language = {
  headings: ["exports", "local", "methods"],
  rules: [
    [/^func\s+(?<name>[A-Z]\w*)(?<call>[[(])/, 0],
    [/^(?<kind>type|var|const)\s+(?<name>[A-Z]\w*)/, 0],
    [/^func\s+(?<name>\w+)(?<call>[[(])/, 1],
    [/^(?<kind>type|var|const)\s+(?<name>\w+)/, 1],
    [/^func\s+\((?:\w+\s+)?\*?\w+(?:\[[^\]]{0,40}\])?\)\s+(?<name>\w+)(?<call>\()/, 2],
  ],
};

const RUST: Language = {
  headings: ["exports", "local", "members"],
  rules: [
    [
      /^pub(?:\([^)]{1,30}\))?\s+(?:(?:async|unsafe|const|extern "C")\s+){0,3}(?:fn(?<call>)|(?<kind>struct|enum|trait|mod|type|static|const|union|use))\s+(?<name>[\w:]+)/,
      0,
    ],
    [
      /^(?:(?:async|unsafe|const)\s+){0,2}(?:fn(?<call>)|(?<kind>struct|enum|trait|mod|type|static|const|macro_rules!))\s+(?<name>\w+)/,
      1,
    ],
    [/^(?<name>impl\b.{1,80})/, 1],
    [/^ {4}(?:pub(?:\([^)]{1,30}\))?\s+)?(?:(?:async|unsafe|const)\s+){0,2}fn(?<call>)\s+(?<name>\w+)/, 2],
  ],
};

const TYPE_WORDS =
  "class|interface|enum|record|struct|union|trait|object|protocol|extension|namespace|module|typedef|annotation";
const MODIFIERS =
  "(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|data|partial|inline|virtual|override|async|export|extern|suspend|case|fileprivate|constexpr)\\s+){0,5}";

const BRACES: Language = {
  headings: ["defines", "local", "members"],
  rules: [
    [new RegExp(`^${MODIFIERS}(?<kind>${TYPE_WORDS})\\s+(?<name>\\w+)`), 0],
    [new RegExp(`^${MODIFIERS}(?:fun|func|function|def|sub)\\s+(?<name>[\\w.?!]+)(?<call>\\s*\\()?`), 0],
    [
      /^(?!(?:if|for|while|switch|return|else|do)\b)(?:[\w:<>,~*&]{1,60}\s+){1,5}[*&]*(?<name>[\w:~]+)(?<call>\s*\()[^;]*$/,
      0,
    ],
    [/^#define\s+(?<name>\w+)/, 1],
    [
      new RegExp(
        `^(?:\\t| {2}| {4})${MODIFIERS}(?:fun|func|function|def)\\s+(?:self\\.)?(?<name>[\\w?!]+)(?<call>\\s*\\()?`,
      ),
      2,
    ],
    [
      /^(?:\t| {2}| {4})(?!(?:if|for|while|switch|return|else|do|new|throw|case|catch)\b)(?:@\w+\s+)?(?:[\w<>,[\]?.]{1,60}\s+){1,5}(?<name>\w+)(?<call>\s*\()[^;=]*\{?\s*$/,
      2,
    ],
  ],
};

const MARKDOWN: Language = {
  fence: /^\s*(?:```|~~~)/,
  rules: [
    [/^(?<name>#{1,2}\s.+)/, 0],
    [/^(?<name>#{3}\s.+)/, 1],
    [/^(?<name>#{4,6}\s.+)/, 2],
  ],
};

const SHELL: Language = {
  rules: [
    [/^(?:function\s+)?(?<name>[\w:.-]+)(?<call>\s*\(\))/, 0],
    [/^function\s+(?<name>[\w:.-]+)/, 0],
    [/^(?:export\s+|readonly\s+)?(?<name>[A-Z][A-Z0-9_]+)=/, 1],
  ],
};

const KEYS: Language = {
  rules: [
    [/^(?<name>\[{1,2}[^\]]{1,100}\]{1,2})\s*$/, 0],
    [/^(?<name>["']?[\w./-]{1,80}["']?)\s*(?::(?=\s|$)|=)/, 1],
  ],
};

export const JSON_KEYS: Language = { rules: [[/^(?: {2}|\t)"(?<name>[^"]{1,80})"\s*:/, 0]] };

const SQL: Language = {
  rules: [[/^\s*(?<name>(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:\w+\s+){1,3}["`\w.]+)/i, 0]],
};

const BY_EXTENSION: readonly (readonly [string, Language])[] = [
  ["ts tsx mts cts js jsx mjs cjs vue svelte", SCRIPT],
  ["py pyi", PYTHON],
  ["go", GO],
  ["rs", RUST],
  ["java kt kts cs swift scala c h cc cpp cxx hpp hh m mm php rb ex dart groovy zig", BRACES],
  ["md mdx markdown", MARKDOWN],
  ["sh bash zsh", SHELL],
  ["yml yaml toml ini cfg conf properties env", KEYS],
  ["json json5 jsonc", JSON_KEYS],
  ["sql", SQL],
];

/** The language of a file by the extension of its path. */
export function languageOf(path: string): Language | undefined {
  const extension = /\.(\w{1,10})$/.exec(path.trim().slice(-20).toLowerCase())?.[1];
  if (extension === undefined) return undefined;
  return BY_EXTENSION.find(([extensions]) => extensions.split(" ").includes(extension))?.[1];
}
