/**
 * Families whose answers follow rules that need more than copying a value from the context: one call for each element
 * of a list, sums and comparisons, pieces of addresses and names, texts made of values. See agent-families.ts. Bench
 * process.
 */

import type { AgentFamily } from './agent-family.ts';
import {
  call,
  date,
  digits,
  fail,
  hex,
  json,
  lastOf,
  maybe,
  money,
  person,
  pick,
  requestNoise,
  tool,
} from './agent-worlds.ts';

const cents = (value: number): number => Math.round(value * 100) / 100;

// ---------------------------------------------------------------- dunning: one call for each overdue invoice

interface DunningWorld {
  account: string;
  customer: string;
  invoices: { invoice_id: string; amount: number; state: string; due: string; currency: string }[];
  sent: string[];
  noted: string;
}
const DUNNING: AgentFamily<DunningWorld> = {
  name: 'dunning',
  tools: [
    tool('list_invoices', 'Open invoices of an account', { account_id: 'string' }),
    tool('send_reminder', 'Remind a customer of one invoice', { invoice_id: 'string', amount: 'number' }),
    tool('note_account', 'Write into the account', {
      account_id: 'string',
      reminded: 'number',
      total: 'number',
    }),
  ],
  makeWorld: (random, isShifted) => ({
    account: `AC-${digits(random, 5)}`,
    customer: person(random).name,
    invoices: Array.from({ length: 1 + random.below(5) }, () => ({
      invoice_id: `INV-${digits(random, 6)}`,
      amount: money(random, 15, 2_400),
      state: isShifted && random.chance(0.3) ? 'disputed' : pick(random, ['overdue', 'open', 'overdue']),
      due: date(random),
      currency: 'EUR',
    })),
    sent: [],
    noted: '',
  }),
  system: (_w, random) => `You remind customers of invoices that are overdue, one reminder for each of them.
Then note on the account how many were reminded and what they come to.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Please do the dunning of account ${w.account} (${w.customer}).`,
      `Account ${w.account}: remind ${w.customer} of what is overdue.`,
    ]),
  call(w, name, input) {
    if (name === 'list_invoices')
      return input.account_id === w.account
        ? json({ account_id: w.account, invoices: w.invoices, as_of: w.invoices[0]!.due })
        : fail('no such account');
    if (name === 'send_reminder') {
      w.sent.push(`${String(input.invoice_id)} ${String(input.amount)}`);
      return json({ invoice_id: input.invoice_id, reminder: `R${String(input.invoice_id).slice(4)}` });
    }
    w.noted = `${String(input.reminded)} ${String(input.total)}`;
    return json({ ok: true });
  },
  act(w, log, random) {
    if (lastOf(log, 'list_invoices') === undefined)
      return call('list_invoices', { account_id: w.account }, maybe(random, 'Looking at the invoices.'));
    const overdue = w.invoices.filter(({ state }) => state === 'overdue');
    if (overdue.length === 0) return { final: `Nothing of account ${w.account} is overdue.` };
    if (lastOf(log, 'send_reminder') === undefined)
      return {
        calls: overdue.map(({ invoice_id, amount }) => ({
          name: 'send_reminder',
          input: { invoice_id, amount },
        })),
      };
    const total = cents(overdue.reduce((sum, { amount }) => sum + amount, 0));
    if (lastOf(log, 'note_account') === undefined)
      return call('note_account', { account_id: w.account, reminded: overdue.length, total });
    const ids = overdue.map(({ invoice_id }) => invoice_id).join(', ');
    return {
      final: pick(random, [
        `Reminded ${w.customer} of ${overdue.length} overdue invoices over ${total.toFixed(2)} EUR: ${ids}.`,
        `${w.customer} was reminded of ${overdue.length} overdue invoices (${ids}), ${total.toFixed(2)} EUR in all.`,
      ]),
    };
  },
  isDone(w) {
    const overdue = w.invoices.filter(({ state }) => state === 'overdue');
    return w.sent.join() === overdue.map(({ invoice_id, amount }) => `${invoice_id} ${amount}`).join();
  },
};

// ---------------------------------------------------------------- expenses: sums and comparisons

interface ExpenseWorld {
  report: string;
  employee: string;
  claimed: number;
  lines: { what: string; quantity: number; price: number }[];
  budget: number;
  done: string;
}
const EXPENSES: AgentFamily<ExpenseWorld> = {
  name: 'expense_check',
  tools: [
    tool('get_report', 'An expense report with its lines', { report_id: 'string' }),
    tool('get_budget', 'What is left of a budget', { employee: 'string' }),
    tool('approve_report', 'Pay it out', { report_id: 'string', amount: 'number' }),
    tool('return_report', 'Send it back', { report_id: 'string', reason: 'string', sum: 'number' }),
    tool('ask_manager', 'Ask for more budget', { report_id: 'string', missing_from: 'number' }),
  ],
  makeWorld(random) {
    const lines = Array.from({ length: 2 + random.below(4) }, () => ({
      what: pick(random, ['taxi', 'hotel', 'meal', 'train', 'parking', 'visa fee']),
      quantity: 1 + random.below(4),
      price: money(random, 4, 180),
    }));
    const sum = cents(lines.reduce((all, { quantity, price }) => all + quantity * price, 0));
    return {
      report: `EXP-${digits(random, 5)}`,
      employee: `E${digits(random, 4)}`,
      claimed: random.chance(0.25) ? cents(sum + money(random, 2, 60)) : sum,
      lines,
      budget: money(random, 100, 1_400),
      done: '',
    };
  },
  system: (
    _w,
    random,
  ) => `You check expense reports. What is claimed must be the sum of the lines, and within the budget that is left.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [`Check ${w.report} please.`, `Expense report ${w.report} came in. Is it right?`]),
  call(w, name, input) {
    if (name === 'get_report')
      return input.report_id === w.report
        ? json({ report_id: w.report, employee: w.employee, claimed: w.claimed, lines: w.lines })
        : fail('no such report');
    if (name === 'get_budget') return json({ employee: w.employee, left: w.budget, period: '2026-11' });
    w.done = `${name} ${String(input.amount ?? input.sum ?? input.missing_from)}`;
    return json({ state: 'done' });
  },
  act(w, log) {
    const sum = cents(w.lines.reduce((all, { quantity, price }) => all + quantity * price, 0));
    if (lastOf(log, 'get_report') === undefined) return call('get_report', { report_id: w.report });
    if (lastOf(log, 'get_budget') === undefined) return call('get_budget', { employee: w.employee });
    if (w.done === '') {
      if (sum !== w.claimed) return call('return_report', { report_id: w.report, reason: 'sum', sum });
      if (w.claimed > w.budget) return call('ask_manager', { report_id: w.report, missing_from: w.budget });
      return call('approve_report', { report_id: w.report, amount: w.claimed });
    }
    if (sum !== w.claimed)
      return {
        final: `${w.report} went back: it claims ${w.claimed} EUR, but its lines come to ${sum} EUR.`,
      };
    if (w.claimed > w.budget)
      return {
        final: `${w.report} needs more budget: ${w.claimed} EUR are claimed and ${w.budget} EUR are left.`,
      };
    return { final: `${w.report} is approved: ${w.claimed} EUR for ${w.lines.length} lines.` };
  },
  isDone: (w) => w.done !== '',
};

// ---------------------------------------------------------------- links: pieces of addresses, paths and dotted names

interface LinkWorld {
  owner: string;
  repo: string;
  number: number;
  file: string;
  folder: string;
  module: string;
  branch: string;
  done: string;
}
const WORDS =
  'amber birch cedar delta ember fjord grove heron iris jade kelp lumen maple north opal pine quartz river slate tern'.split(
    ' ',
  );
const LINKS: AgentFamily<LinkWorld> = {
  name: 'review_links',
  tools: [
    tool('get_pull', 'A pull request', { owner: 'string', repo: 'string', number: 'integer' }),
    tool('find_owner', 'Who owns a module', { package: 'string', team_file: 'string' }),
    tool('request_review', 'Ask for a review', { reviewer: 'string', branch: 'string', number: 'integer' }),
  ],
  makeWorld: (random) => ({
    owner: `${pick(random, WORDS)}-${pick(random, WORDS)}`,
    repo: `${pick(random, WORDS)}${random.below(90)}`,
    number: 1 + random.below(9_000),
    file: `${pick(random, WORDS)}_${pick(random, WORDS)}`,
    folder: `${pick(random, WORDS)}/${pick(random, WORDS)}`,
    module: `${pick(random, WORDS)}.${pick(random, WORDS)}`,
    branch: `${pick(random, WORDS)}-${random.below(400)}`,
    done: '',
  }),
  system: (_w, random) => `You find reviewers for pull requests.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Who should review https://git.example.com/${w.owner}/${w.repo}/pull/${w.number}?`,
      `Please find a reviewer: https://git.example.com/${w.owner}/${w.repo}/pull/${w.number} has waited for a day.`,
    ]),
  call(w, name, input) {
    if (name === 'get_pull')
      return input.number === w.number && input.owner === w.owner
        ? json({
            title: `Mend the ${w.file}`,
            head: `refs/heads/${w.branch}`,
            changed: `src/${w.folder}/${w.file}.py`,
            qualified_name: `app.${w.module}.Handler`,
          })
        : fail('no such pull request');
    if (name === 'find_owner')
      return json({
        contact: `mailto:${String(input.package)}@${w.owner}.example?subject=review`,
        slack: '#dev',
      });
    w.done = `${String(input.reviewer)} ${String(input.branch)}`;
    return json({ state: 'requested' });
  },
  act(w, log, random) {
    if (lastOf(log, 'get_pull') === undefined)
      return call('get_pull', { owner: w.owner, repo: w.repo, number: w.number });
    const name = w.module.split('.')[0]!;
    if (lastOf(log, 'find_owner') === undefined)
      return call('find_owner', { package: name, team_file: `src/${w.folder}/OWNERS` });
    const reviewer = `${name}@${w.owner}.example`;
    if (w.done === '') return call('request_review', { reviewer, branch: w.branch, number: w.number });
    return {
      final: pick(random, [
        `I asked ${reviewer} to review ${w.repo} #${w.number} (branch ${w.branch}).`,
        `${reviewer} will review ${w.repo} #${w.number}, branch ${w.branch}.`,
      ]),
    };
  },
  isDone: (w) => w.done === `${w.module.split('.')[0]}@${w.owner}.example ${w.branch}`,
};

// ---------------------------------------------------------------- stock: a comparison, and a limit seen from one side

interface StockWorld {
  order: string;
  sku: string;
  wanted: number;
  stock: number;
  reserved: number;
  amount: number;
  done: string;
}
const STOCK: AgentFamily<StockWorld> = {
  name: 'stock_release',
  tools: [
    tool('get_order_line', 'What was ordered', { order_id: 'string' }),
    tool('get_stock', 'What is there', { sku: 'string' }),
    tool('release_line', 'Send it', { order_id: 'string', quantity: 'number' }),
    tool('back_order', 'Wait for more', { order_id: 'string', sku: 'string' }),
    tool('hold_line', 'Ask a person', { order_id: 'string' }),
  ],
  makeWorld: (random, isShifted) => ({
    order: `SO-${digits(random, 6)}`,
    sku: `${hex(random, 4)}-${digits(random, 3)}`,
    wanted: 1 + random.below(60),
    stock: random.below(90),
    reserved: random.below(12),
    // A person decides on amounts above 5,000. No golden run has an amount near 5,000.
    amount: isShifted ? money(random, 5_200, 14_000) : money(random, 20, 2_600),
    done: '',
  }),
  system: (
    _w,
    random,
  ) => `You release order lines when there is enough in stock. What is large goes to a person.
${requestNoise(random)}`,
  task: (w, random) => pick(random, [`Release ${w.order} if you can.`, `Can ${w.order} be sent?`]),
  call(w, name, input) {
    if (name === 'get_order_line')
      return input.order_id === w.order
        ? json({ order_id: w.order, sku: w.sku, quantity: w.wanted, value: w.amount, currency: 'EUR' })
        : fail('no such order');
    if (name === 'get_stock')
      return json({ sku: w.sku, on_hand: w.stock, reserved: w.reserved, shelf: `S${w.reserved}` });
    w.done = `${name} ${String(input.quantity ?? '')}`;
    return json({ state: 'done' });
  },
  act(w, log) {
    if (lastOf(log, 'get_order_line') === undefined) return call('get_order_line', { order_id: w.order });
    if (w.amount > 5_000) {
      if (w.done === '') return call('hold_line', { order_id: w.order });
      return { final: `${w.order} is large (${w.amount} EUR): a person decides.` };
    }
    if (lastOf(log, 'get_stock') === undefined) return call('get_stock', { sku: w.sku });
    const isEnough = w.wanted <= w.stock;
    if (w.done === '')
      return isEnough
        ? call('release_line', { order_id: w.order, quantity: w.wanted })
        : call('back_order', { order_id: w.order, sku: w.sku });
    return {
      final: isEnough
        ? `${w.order} is released: ${w.wanted} of ${w.sku}.`
        : `${w.order} waits: ${w.wanted} of ${w.sku} were ordered and ${w.stock} are there.`,
    };
  },
  isDone: (w) => w.done !== '',
};

// ---------------------------------------------------------------- releases: a shell alone, tasks in several wordings

interface ReleaseWorld {
  name: string;
  before: string;
  version: string;
  breaks: boolean;
  tests: number;
  state: 'read' | 'set' | 'committed' | 'restored';
  commit: string;
}
const RELEASES: AgentFamily<ReleaseWorld> = {
  name: 'package_release',
  tools: [tool('shell', 'Run a shell command', { command: 'string', why: 'string' })],
  makeWorld(random, isShifted) {
    const [major, minor, patch] = [random.below(9), random.below(30), random.below(40)];
    const name = `${pick(random, ['form', 'chart', 'queue', 'mail', 'cache'])}-${pick(random, ['core', 'view', 'kit'])}`;
    return {
      name: isShifted ? `${name}-next` : name,
      before: `${major}.${minor}.${patch}`,
      version: random.chance(0.7) ? `${major}.${minor}.${patch + 1}` : `${major}.${minor + 1}.0`,
      breaks: random.chance(0.15),
      tests: 10 + random.below(400),
      state: 'read',
      commit: hex(random, 7),
    };
  },
  system: (_w, random) => `You release packages: read the package file, set the version, test, commit.
Where a test fails, restore the file and say so.
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Release ${w.name} as ${w.version}.`,
      `Please bring out ${w.version} of ${w.name} today.`,
      `We need ${w.name} version ${w.version}.`,
    ]),
  call(w, _name, input) {
    const command = String(input.command);
    const file = `packages/${w.name}/package.json`;
    if (command === `cat ${file}`)
      return json({ name: `@shop/${w.name}`, version: w.before, scripts: { test: 'vitest run' } });
    if (command === `npm version ${w.version} --prefix packages/${w.name}`) {
      w.state = 'set';
      return { text: '' };
    }
    if (command === `npm test --prefix packages/${w.name}`)
      return w.breaks
        ? fail(`FAIL ${w.name} 1 failed | ${w.tests} passed`)
        : { text: `${w.tests} passed in ${w.tests * 13} ms` };
    if (command === `git commit -m ${w.name}@${w.version} ${file}`) {
      w.state = 'committed';
      return { text: `[release ${w.commit}] 1 file changed` };
    }
    if (command !== `git checkout ${file}`) return fail(`bash: ${command}: exit code 2`);
    w.state = 'restored';
    return { text: '' };
  },
  act(w, log, random) {
    const file = `packages/${w.name}/package.json`;
    const run = (command: string, why: string) =>
      call('shell', { command, why }, maybe(random, 'Next step.'));
    const last = log.at(-1);
    const command = String(last?.input.command ?? '');
    if (last === undefined) return run(`cat ${file}`, 'Read the package');
    if (command.startsWith('cat'))
      return run(`npm version ${w.version} --prefix packages/${w.name}`, 'Set the version');
    if (command.startsWith('npm version')) return run(`npm test --prefix packages/${w.name}`, 'Test');
    if (command.startsWith('npm test'))
      return last.is_error
        ? run(`git checkout ${file}`, 'Restore the file')
        : run(`git commit -m ${w.name}@${w.version} ${file}`, 'Commit');
    if (command.startsWith('git checkout'))
      return { final: `${w.name} ${w.version} is not released: a test failed. The file is as it was.` };
    return {
      final: pick(random, [
        `Released ${w.name} ${w.version} (${w.commit}).`,
        `${w.name} ${w.version} is out, commit ${w.commit}.`,
      ]),
    };
  },
  isDone: (w) => w.state === (w.breaks ? 'restored' : 'committed'),
};

/** The families of this file. Each has its own tools. */
export const REGULAR_FAMILIES: readonly AgentFamily[] = [DUNNING, EXPENSES, LINKS, STOCK, RELEASES];
