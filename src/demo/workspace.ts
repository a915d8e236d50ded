/**
 * The project that the demo's agent mends: two small files in a temporary directory, and the three tools that work on
 * them for real. Main thread of the demo.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

/** The result of a tool. */
interface ToolOutcome {
  text: string;
  is_error: boolean;
}

/** Time limit of a test run. The demo's tests take a fraction of a second. */
const TEST_LIMIT_MS = 30_000;

const CART = `// Prices are in cents.
export function total(items) {
  let sum = 0;
  for (let i = 1; i < items.length; i += 1) {
    sum += items[i].price * items[i].count;
  }
  return sum;
}
`;

const CART_TEST = `import assert from 'node:assert/strict';
import { total } from './cart.mjs';

assert.equal(total([]), 0, 'an empty cart costs nothing');
assert.equal(total([{ price: 250, count: 2 }, { price: 100, count: 1 }]), 600, 'two kinds of things');
console.log('2 checks passed');
`;

/** The inputs of the tools, as JSON schemas that every request contains. */
export const TOOLS = [
  {
    name: 'run_tests',
    description: 'Runs the tests of the project and gives what they printed.',
    input_schema: { type: 'object' as const, properties: {} },
  },
  {
    name: 'read_file',
    description: 'Gives the content of a file of the project.',
    input_schema: { type: 'object' as const, properties: { path: { type: 'string' } }, required: ['path'] },
  },
  {
    name: 'edit_file',
    description: 'Replaces the only occurrence of the old text with the new text.',
    input_schema: {
      type: 'object' as const,
      properties: { path: { type: 'string' }, old: { type: 'string' }, new: { type: 'string' } },
      required: ['path', 'old', 'new'],
    },
  },
];

/** The directory and the tools. */
export class Workspace {
  readonly #dir: string;

  private constructor(dir: string) {
    this.#dir = dir;
  }

  static async create(): Promise<Workspace> {
    const dir = await mkdtemp(join(tmpdir(), 'understudy-demo-'));
    await writeFile(join(dir, 'cart.mjs'), CART);
    await writeFile(join(dir, 'cart.test.mjs'), CART_TEST);
    return new Workspace(dir);
  }

  async remove(): Promise<void> {
    await rm(this.#dir, { recursive: true, force: true });
  }

  /** Runs a tool. Never throws: every failure is a result for the model. */
  async runTool(name: string, input: Record<string, unknown>): Promise<ToolOutcome> {
    try {
      if (name === 'run_tests') return await this.#runTests();
      if (name === 'read_file')
        return { text: await readFile(this.#path(input.path), 'utf8'), is_error: false };
      if (name === 'edit_file') return await this.#editFile(input);
      return { text: `there is no tool ${name}`, is_error: true };
    } catch (error) {
      return { text: (error as Error).message, is_error: true };
    }
  }

  /** The path of a file in the directory. Folders in the given path are ignored. */
  #path(path: unknown): string {
    return join(this.#dir, basename(String(path)));
  }

  async #editFile(input: Record<string, unknown>): Promise<ToolOutcome> {
    const path = this.#path(input.path);
    const old = String(input.old);
    const parts = (await readFile(path, 'utf8')).split(old);
    if (parts.length !== 2) {
      return {
        text: `the old text occurs ${parts.length - 1} times in ${input.path}, not once`,
        is_error: true,
      };
    }
    await writeFile(path, parts.join(String(input.new)));
    return { text: `${input.path} is changed`, is_error: false };
  }

  #runTests(): Promise<ToolOutcome> {
    return new Promise((resolve) => {
      const options = { cwd: this.#dir, timeout: TEST_LIMIT_MS };
      execFile(process.execPath, ['cart.test.mjs'], options, (error, stdout, stderr) => {
        const printed = `${stdout}${stderr}`.replaceAll(this.#dir, '.');
        // Only the first line of a failed assertion is returned, because the rest is Node's stack trace.
        const said = /AssertionError[^\n]*/.exec(printed)?.[0] ?? printed.trim();
        resolve({ text: said, is_error: error !== null });
      });
    });
  }
}
