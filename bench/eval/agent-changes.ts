/**
 * Four silent changes of synthetic agents (agent-families.ts): the upstream answers differently from one day to the
 * next, although the prompts stay the same. Bench process.
 */

import type { Act, AgentFamily, Fields, LoggedCall } from './agent-family.ts';

/** Changes an agent. @returns null if the change does not apply to this agent */
export type AgentChange = (family: AgentFamily) => AgentFamily | null;

/**
 * Whether a tool result of the run has the hold code H2, which about every third input gets. This depends only on the
 * inputs of the calls, so the same run always gets the same result.
 */
const isFlagged = (log: readonly LoggedCall[]): boolean => log.some(({ json }) => json?.hold_code === 'H2');

export const AGENT_CHANGES: Readonly<Record<string, AgentChange>> = {
  'an answer changes: the first call asks for more': (family) => ({
    ...family,
    act: (world, log, random) => {
      const act = family.act(world, log, random);
      if (log.length > 0 || 'final' in act) return act;
      return {
        ...act,
        calls: act.calls.map(({ name, input }) => ({ name, input: { ...input, full: true } })),
      };
    },
  }),
  'a threshold moves': (family) => {
    const move = MOVED[family.name];
    if (move === undefined) return null;
    return { ...family, act: (world, log, random) => family.act(move(world as Fields), log, random) };
  },
  'tool results gain a code on which the last answer depends': (family) => ({
    ...family,
    call: (world, name, input) => {
      const result = family.call(world, name, input);
      if (!result.text.startsWith('{')) return result;
      const code = JSON.stringify(input).length % 3 === 0 ? 'H2' : 'none';
      return { ...result, text: JSON.stringify({ ...JSON.parse(result.text), hold_code: code }) };
    },
    act: (world, log, random): Act => {
      const act = family.act(world, log, random);
      return 'final' in act && isFlagged(log) ? { final: `${act.final} It is on hold under code H2.` } : act;
    },
  }),
  'the wording of the last answer changes': (family) => ({
    ...family,
    act: (world, log, random) => {
      const act = family.act(world, log, random);
      if (!('final' in act)) return act;
      const values = act.final.match(/\S*\d\S*/g) ?? [];
      return { final: `Summary for the file, without further comment or advice: ${values.join(' / ')}` };
    },
  }),
};

/** Changes the values that the policy sees, so that its threshold seems to have moved. */
const MOVED: Readonly<Record<string, (world: Fields) => Fields>> = {
  stock_release: (w) => ({ ...w, stock: w.stock - 15 }),
  expense_check: (w) => ({ ...w, budget: w.budget - 200 }),
  // The changed policy pays invoices that differ by less than 20.
  invoice_check: (w) => (Math.abs(w.amount - w.poAmount) < 20 ? { ...w, poAmount: w.amount } : w),
};
