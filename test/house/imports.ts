/** Reads the imports of a TypeScript module and its accesses to the environment, with a real parser. */

import { parseAst } from 'vitest/node';

interface ModuleFacts {
  /** Every specifier, static or dynamic, type or value, re-exports included. */
  imports: { specifier: string; is_type_only: boolean }[];
  /** Whether the module reads `process.env`, in any spelling. */
  reads_env: boolean;
  /** Whether the file begins with a doc comment. A shebang may precede it. */
  has_header: boolean;
}

interface Node {
  type: string;
  [key: string]: unknown;
}

/** Cached by text: several tests read the whole tree, and parsing it takes a second. */
const read = new Map<string, ModuleFacts>();

/**
 * @param source the text of a `.ts`, `.tsx` or `.mjs` file
 * @param file its name
 * @throws Error if it does not parse, or if the target of a dynamic import is not a literal and so is unknown
 */
export function readModule(source: string, file = ''): ModuleFacts {
  const known = read.get(source);
  if (known !== undefined) return known;
  const facts: ModuleFacts = {
    imports: [],
    reads_env: false,
    has_header: /^(#!.*\n)?\/\*\*/.test(source),
  };
  visit(parseAst(source, { lang: file.endsWith('.tsx') ? 'tsx' : 'ts' }) as unknown as Node, (node) =>
    noteNode(node, facts),
  );
  read.set(source, facts);
  return facts;
}

function noteNode(node: Node, facts: ModuleFacts): void {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      if (node.source) noteImport(node.source as Node, isTypeOnly(node), facts);
      if (node.type === 'ImportDeclaration') noteEnvImport(node, facts);
      break;
    case 'ImportExpression':
      noteImport(node.source as Node, false, facts);
      break;
    case 'TSImportType':
      noteImport(node.source as Node, true, facts);
      break;
    case 'MemberExpression':
      if (nameOf(node.object) === 'process' && nameOf(node.property) === 'env') facts.reads_env = true;
      if (nameOf((node.object as Node).property) === 'process' && nameOf(node.property) === 'env')
        facts.reads_env = true;
      break;
    case 'VariableDeclarator':
      if (nameOf(node.init) === 'process' && JSON.stringify(node.id).includes('"env"'))
        facts.reads_env = true;
      break;
  }
}

function noteImport(source: Node, is_type_only: boolean, facts: ModuleFacts): void {
  if (typeof source.value !== 'string')
    throw new Error('a dynamic import of something that is not a literal');
  facts.imports.push({ specifier: source.value, is_type_only });
}

/** Whether this is `import type …`, or every name in its braces is marked `type`. */
function isTypeOnly(node: Node): boolean {
  if ((node.importKind ?? node.exportKind) === 'type') return true;
  const names = (node.specifiers ?? []) as Node[];
  return names.length > 0 && names.every((name) => (name.importKind ?? name.exportKind) === 'type');
}

function noteEnvImport(node: Node, facts: ModuleFacts): void {
  const { value } = node.source as Node;
  if (value !== 'node:process' && value !== 'process') return;
  if (((node.specifiers ?? []) as Node[]).some((name) => nameOf(name.imported) === 'env'))
    facts.reads_env = true;
}

/** The name of an identifier, or of a literal in brackets. */
function nameOf(node: unknown): string | undefined {
  const { name, value } = (node ?? {}) as { name?: string; value?: unknown };
  return name ?? (typeof value === 'string' ? value : undefined);
}

function visit(node: unknown, note: (node: Node) => void): void {
  if (Array.isArray(node)) {
    for (const item of node) visit(item, note);
  } else if (typeof node === 'object' && node !== null) {
    if (typeof (node as Node).type === 'string') note(node as Node);
    for (const value of Object.values(node)) visit(value, note);
  }
}
