/** Finds exports that no other file uses. A function over sources as data; test threads. */
import { posix } from 'node:path';
import { parseAst } from 'vitest/node';

/** Files whose exports are used outside of the tree. */
const ENTRY_POINTS: readonly RegExp[] = [
  // The files for edge functions replace those of the same name in src/client (tools/packages.ts).
  /^src\/client\/edge\//,
  // package.json's "exports".
  /^src\/client\/understudy\.ts$/,
  /^src\/label\/(label|auto)\.ts$/,
  /^src\/integrations\/(ai-sdk|anthropic|claude-agent-sdk|langchain|openai-agents)\.ts$/,
  // Generated from the contract, for users of the client.
  /^src\/client\/operation-types\.ts$/,
  // Declarations for packages that lack them.
  /\.d\.ts$/,
];

interface Node {
  type: string;
  [key: string]: unknown;
}

interface ModuleNames {
  exports: Set<string>;
  /** Pairs of a path and an imported name. The name `*` stands for all. */
  uses: [string, string][];
}

/**
 * @param files every file that may import another, by its path from the root
 * @returns `path: name` of each export that no other file imports, sorted. A default export does not count, because
 *   threads and tools load modules by address
 */
export function findUnusedExports(files: ReadonlyMap<string, string>): string[] {
  const modules = new Map([...files].map(([file, source]) => [file, readNames(file, source)]));
  const used = new Set<string>();
  for (const [file, { uses }] of modules)
    for (const [target, name] of uses) if (target !== file) used.add(`${target}: ${name}`);
  return [...modules]
    .filter(([file]) => !ENTRY_POINTS.some((entry) => entry.test(file)))
    .flatMap(([file, { exports }]) =>
      used.has(`${file}: *`) ? [] : [...exports].map((name) => `${file}: ${name}`),
    )
    .filter((name) => !used.has(name) && !name.endsWith(': default'))
    .sort();
}

function readNames(file: string, source: string): ModuleNames {
  const names: ModuleNames = { exports: new Set(), uses: [] };
  const note = (specifier: unknown, name: string): void => {
    if (typeof specifier === 'string' && specifier.startsWith('.'))
      names.uses.push([posix.join(posix.dirname(file), specifier), name]);
  };
  walk(parseAst(source, { lang: file.endsWith('.tsx') ? 'tsx' : 'ts' }) as unknown as Node, (node) => {
    if (node.type === 'ImportDeclaration') noteImport(node, note);
    else if (node.type === 'ExportNamedDeclaration') noteExport(node, names.exports, note);
    else if (node.type === 'ExportAllDeclaration') note(literalOf(node.source), '*');
    else if (node.type === 'TSImportType') note(literalOf(node.source), nameOf(node.qualifier) ?? '*');
    else if (node.type === 'VariableDeclarator') return !noteDestructured(node, note);
    else if (node.type === 'ImportExpression') note(moduleOf(node.source), '*');
    return true;
  });
  return names;
}

type Note = (specifier: unknown, name: string) => void;

function noteImport(node: Node, note: Note): void {
  for (const specifier of node.specifiers as Node[])
    note(
      literalOf(node.source),
      specifier.type === 'ImportNamespaceSpecifier' ? '*' : (nameOf(specifier.imported) ?? 'default'),
    );
}

function noteExport(node: Node, exports: Set<string>, note: Note): void {
  const declaration = node.declaration as Node | null;
  for (const specifier of node.specifiers as Node[]) {
    exports.add(nameOf(specifier.exported)!);
    if (node.source !== null) note(literalOf(node.source), nameOf(specifier.local)!);
  }
  if (declaration === null) return;
  const declared =
    declaration.type === 'VariableDeclaration' ? (declaration.declarations as Node[]) : [declaration];
  for (const { id } of declared) {
    const name = nameOf(id);
    if (name !== undefined) exports.add(name);
  }
}

/** Matches `const { a } = await import('./b.ts')`. @returns whether the declaration has that form */
function noteDestructured({ id, init }: Node, note: Note): boolean {
  const called = (init as Node | null)?.type === 'AwaitExpression' ? ((init as Node).argument as Node) : null;
  if (called?.type !== 'ImportExpression' || (id as Node).type !== 'ObjectPattern') return false;
  for (const property of (id as Node).properties as Node[])
    note(moduleOf(called.source), nameOf(property.key) ?? '*');
  return true;
}

/** The module that `import()` names: by a literal, or by `new URL('./a.ts', import.meta.url).href`. */
function moduleOf(source: unknown): unknown {
  const node = source as Node;
  const address = node.type === 'MemberExpression' ? (node.object as Node) : node;
  return literalOf(address.type === 'NewExpression' ? (address.arguments as Node[])[0] : node);
}

function literalOf(node: unknown): unknown {
  return (node as Node | null)?.value;
}

/** The name of an identifier or of a string. */
function nameOf(node: unknown): string | undefined {
  const { name, value } = (node ?? {}) as { name?: string; value?: string };
  return name ?? value;
}

/** Visits a node and, if `visit` returns true, everything in it. */
function walk(node: unknown, visit: (node: Node) => boolean): void {
  if (Array.isArray(node)) {
    for (const item of node) walk(item, visit);
  } else if (typeof node === 'object' && node !== null) {
    if (typeof (node as Node).type === 'string' && !visit(node as Node)) return;
    for (const value of Object.values(node)) walk(value, visit);
  }
}
