/** Tools that only read, by their descriptions. */
import { describe, expect, it } from 'vitest';
import { readsOnly } from '../../../src/student/model/look-calls.ts';
import { digest, tool, user } from './made-steps.ts';

describe('a tool whose name does not say that it only reads', () => {
  it.each([
    ['doctor_hours', 'Lists the free times of a department for five working days.'],
    ['referral_rules', 'Reads what a department demands of patients.'],
    ['customerHistory', 'This tool retrieves earlier orders and complaints of a customer.'],
    ['weather', 'Look up the weather of a place.'],
  ])('%s: %s', (name, description) => {
    expect(readsOnly(name, description)).toBe(true);
  });

  it.each([
    ['no description', 'doctor_hours', ''],
    ['a description of something else', 'doctor_hours', 'The hours of doctors; lists them.'],
    ['a name that begins with a verb of a change', 'publish', 'Lists a product in the shop.'],
    ['another such name', 'return_sheet', 'Finds the sheet and gives it back.'],
    ['a description that continues with a change', 'seat_map', 'Finds the best seat and reserves it.'],
    ['a change after a comma', 'inbox', 'Reads new mails, then marks them as read.'],
    ['a verb that may mean a change', 'approval', 'Gets approval from the manager.'],
  ])('is not known to read only: %s', (_, name, description) => {
    expect(readsOnly(name, description)).toBe(false);
  });

  it('is listed in the step if it may be called', () => {
    const tools = [
      { ...tool('doctor_hours'), description: 'Lists the free times.' },
      { ...tool('referral_rules'), description: 'Reads the rules.' },
      { ...tool('get_order'), description: 'Reads an order.' },
      { ...tool('book'), description: 'Books a time.' },
    ];
    expect(digest([user('Hello')], { tools }).reads).toEqual(['doctor_hours', 'referral_rules']);
    const only = { mode: 'tool' as const, names: ['doctor_hours'], parallel: true };
    expect(digest([user('Hello')], { tools, tool_choice: only }).reads).toEqual(['doctor_hours']);
    expect(digest([user('Hello')], { tools: [tool('get_order')] })).not.toHaveProperty('reads');
  });
});
