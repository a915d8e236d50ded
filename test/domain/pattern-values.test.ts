/** Patterns contain no value of their run: neither planted values of made-up runs, nor those of real customers. */

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  findPatterns,
  generalizePattern,
  keepDistinct,
  type PatternDraft,
} from '../../src/domain/patterns/drafts.ts';
import { generalizeText } from '../../src/domain/patterns/rule-text.ts';
import { readCallTrace, readLegacyTrace, type Trace } from '../../src/domain/trace.ts';
import { sharedFile } from '../fixtures/shared.ts';

const HEAD = { trace_id: 't', run_id: '', model: 'm', task_profile: 'coding' };

/** Names in several languages, scripts and spellings. */
const PERSONS = [
  ['Mei', 'Kovács'],
  ['Yusuf', 'Rossi'],
  ['Siân', 'Llewellyn'],
  ['Ngozi', 'Okonkwo'],
  ['Łukasz', 'Żółkiewski'],
  ['Jean-Luc', 'O’Brien'],
  ['DeShawn', 'McAllister'],
  ['Will', 'Young'],
  ['Марина', 'Соколова'],
  ['Αλέξανδρος', 'Παπαδόπουλος'],
  ['王', '秀英'],
  ['さくら', '田中'],
  ['محمد', 'الهاشمي'],
  ['María José', 'Núñez'],
  ['Þórdís', 'Jónsdóttir'],
  ['Mark', 'Day'],
] as const;
const STREETS = [
  (n: number) => `${n} Hickory Lane`,
  (n: number) => `${n} elm street`,
  (n: number) => `Hauptstraße ${n}`,
  (n: number) => `${n} rue de la Paix`,
  (n: number) => `Calle Mayor ${n}`,
  (n: number) => `ул. Гагарина ${n}`,
  (n: number) => `${n} Hickory Lane, Suite ${n + 7}`,
];
const CITIES = ['Indianapolis', 'San Diego', 'Kraków', 'Nijmegen', 'Αθήνα', 'Екатеринбург', 'Ouagadougou'];

interface Planted {
  first: string;
  last: string;
  email: string;
  phone: string;
  street: string;
  city: string;
  zip: string;
  user: string;
  order: string;
  card: string;
  other: string;
  item: string;
  amount: string;
  date: string;
}

const planted: fc.Arbitrary<Planted> = fc
  .record({
    person: fc.constantFrom(...PERSONS),
    street: fc.constantFrom(...STREETS),
    city: fc.constantFrom(...CITIES),
    n: fc.integer({ min: 1_000, max: 9_999 }),
    m: fc.integer({ min: 2_000_000, max: 9_999_999 }),
    cents: fc.integer({ min: 1_001, max: 999_999 }),
    day: fc.integer({ min: 10, max: 28 }),
    month: fc.integer({ min: 1, max: 12 }),
  })
  .map(({ person: [first, last], street, city, n, m, cents, day, month }) => ({
    first,
    last,
    email: `${first.toLowerCase().replace(/[^\p{L}]/gu, '')}.x${n}@example.com`,
    phone: `+1 555-${String(n).slice(0, 3)}-${n}`,
    street: street((n % 900) + 20),
    city,
    zip: String(10_000 + n),
    user: `user_${n}`,
    order: `#W${m}`,
    card: `credit_card_${m + 1}`,
    other: `gift_card_${m + 2}`,
    item: String(m * 1_000 + 3),
    amount: (cents / 100).toFixed(2),
    date: `2024-${String(month).padStart(2, '0')}-${day}`,
  }));

/** Everything that a pattern must not contain: the values and the words of the names. */
function secretsOf(customer: Planted): string[] {
  const { first, last, city, ...others } = customer;
  const words = [first, last, city].flatMap((name) => [name, ...name.split(/[\s-]+/)]);
  return [...words, ...Object.values(others)].filter((word) => word.length > 1);
}

/** A run that was refused and then succeeded, with the values in results, arguments, thoughts and the user's words. */
function customerRun(customer: Planted, outcome: string, isTold: boolean): Trace {
  const profile = {
    name: { first_name: customer.first, last_name: customer.last },
    address: { address1: customer.street, city: customer.city, zip: customer.zip },
    email: customer.email,
    phone: customer.phone,
    dob: customer.date,
    payment_methods: {
      [customer.card]: { id: customer.card, source: 'credit_card', amount: Number(customer.amount) },
    },
    orders: [customer.order],
  };
  const said = isTold
    ? `My name is ${customer.first} ${customer.last}, I live at ${customer.street} in ${customer.city} (${customer.zip}), my mail is ${customer.email}.`
    : '';
  const call = (payment: string) =>
    JSON.stringify({
      order_id: customer.order,
      item_ids: [customer.item],
      payment_method_id: payment,
      note: `for ${customer.first} ${customer.last}`,
    });
  return readLegacyTrace(
    { ...HEAD, task: `I want to pay order ${customer.order} with another card. ${said}`, outcome },
    [
      {
        thought: `${customer.first} ${customer.last} wants to pay ${customer.amount} dollars by ${customer.date}.`,
        action: 'pay_order',
        action_input: call(customer.other),
        observation: `Error: payment method ${customer.other} of ${customer.first} ${customer.last} not found for ${customer.amount}`,
        is_error: true,
        tokens_used: 1,
      },
      {
        thought: '',
        action: 'get_user_details',
        action_input: JSON.stringify({ user_id: customer.user }),
        observation: JSON.stringify(profile),
        is_error: false,
        tokens_used: 1,
      },
      {
        thought: `The profile of ${customer.first} lists ${customer.card}, so the payment should use that card instead.`,
        action: 'pay_order',
        action_input: call(customer.card),
        observation: `Paid ${customer.amount} for ${customer.last} on ${customer.date}; receipt sent to ${customer.email} and ${customer.phone}`,
        is_error: false,
        tokens_used: 1,
      },
    ],
  );
}

const textOf = ({ situation, dead_ends, unlock }: PatternDraft): string =>
  [situation, dead_ends, unlock].join('\n');

function expectNone(texts: string, secrets: readonly string[]): void {
  for (const secret of secrets) {
    const whole = new RegExp(
      `(?<![\\p{L}\\p{N}_])${secret.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\p{L}\\p{N}_])`,
      'u',
    );
    expect(texts).not.toMatch(whole);
  }
}

describe('a pattern', () => {
  it('contains none of the planted persons, ids, addresses, amounts and dates', { tags: 'long' }, () => {
    fc.assert(
      fc.property(
        planted,
        fc.constantFrom('success', 'failure', ''),
        fc.boolean(),
        (customer, outcome, isTold) => {
          const patterns = keepDistinct(findPatterns(customerRun(customer, outcome, isTold)), null);
          if (outcome === 'success') expect(patterns).toHaveLength(1);
          for (const pattern of patterns) expectNone(textOf(pattern), secretsOf(customer));
        },
      ),
      { numRuns: 120 },
    );
  });

  it('is the same for two customers with the same problem', () => {
    fc.assert(
      fc.property(planted, planted, (customer, other) => {
        const [mine] = findPatterns(customerRun(customer, 'success', false));
        const [second] = findPatterns(customerRun(other, 'success', false));
        // Only the solution is compared. The reason may be shorter, because names in a script without capitals are left
        // out.
        expect(mine!.unlock.split('What worked')[1]).toBe(second!.unlock.split('What worked')[1]);
      }),
      { numRuns: 50 },
    );
  });

  it('says where the agent got a value', () => {
    const customer = fc.sample(planted, { numRuns: 1, seed: 7 })[0]!;
    const [pattern] = findPatterns(customerRun(customer, 'success', false));
    expect(pattern!.unlock).toContain('the payment method listed by get_user_details');
    expect(pattern!.dead_ends).toContain('order_id=the order id named in the task');
    expect(pattern!.dead_ends).toContain('payment_method_id=a payment method id');
    expect(pattern!.unlock).toContain('First `get_user_details(');
  });

  it('is not changed when it is generalized a second time', () => {
    fc.assert(
      fc.property(planted, (customer) => {
        for (const pattern of findPatterns(customerRun(customer, 'success', true)))
          expect(generalizePattern(pattern)).toEqual(pattern);
      }),
      { numRuns: 100 },
    );
  });

  it('of a run that failed has its dead ends and no solution', () => {
    const customer = fc.sample(planted, { numRuns: 1, seed: 8 })[0]!;
    const [pattern, ...others] = findPatterns(customerRun(customer, 'failure: WrongRefund', false));
    expect(others).toEqual([]);
    expect(pattern!.dead_ends).toContain('payment method');
    expect(pattern!.unlock).toBe('Not known yet: only runs that failed have met this.');
  });
});

describe('a text without its run', () => {
  it.each([
    ['Hi, I am Yusuf Rossi, zip 19122.', 'Hi, I am a name, zip a zip.'],
    ['Refund $1,859.00 for order #W2611340 on 24 May 2024.', 'Refund an amount for an order id on a date.'],
    ['Call +1 555-123-4567 at 10:30 am.', 'Call a phone number at a time.'],
    ['Ship it to 281 Spruce Street, Suite 942, San Diego, CA 92164.', 'Ship it to an address.'],
    [
      'See https://shop.example/orders/77 or ask mei.kovacs@example.com.',
      'See a URL or ask an e-mail address.',
    ],
    ['Edit src/billing/invoice.ts and package.json', 'Edit a .ts file and package.json'],
    ['first_name="omar", cabin="economy"', 'first_name=a first name, cabin="economy"'],
    ['refund --city seattle --order 77120 --dry-run', 'refund --city a city --order an id --dry-run'],
    ['Error: 350 is more than the 99.95 left', 'Error: a number is more than the amount left'],
    ['Since Hunter Small owns another order', 'Since a name owns another order'],
    ['Ask Dr. Okonkwo or McAllister', 'Ask Dr. a name'],
  ])('says %j as %j', (text, said) => {
    expect(generalizeText(text)).toBe(said);
    expect(generalizeText(said)).toBe(said);
  });

  it.each([
    'TypeError: total is undefined',
    'npm test -- --reporter=dot failed with exit code 127',
    'HTTP 404 Not Found from the API',
    'python3.11 -m pip install numpy==1.26.4',
    'Use get_user_details before modify_pending_order_items.',
    'Syntax error at or near "SELEC" in "SELEC count(*) FROM orders"',
    'Set `PYTHONPATH` and run pytest -k smoke',
    'Only timeouts, rate limits and 5xx answers deserve a plain retry.',
    "Don't send it twice: I'll wait for the GitHub Action.",
    'Encode it as UTF-8 and hash it with SHA-256.',
    'kubectl get pods --all-namespaces',
  ])('keeps every value that is part of the rule: %j', (text) => {
    expect(generalizeText(text)).toBe(text);
  });

  it('is made within the time limit of a test, and stays bounded, for 8,000 characters of any repeated piece', () => {
    for (const piece of [
      'a@',
      'A ',
      '1 ',
      '1-',
      'a.b.',
      '/x',
      '_',
      '"',
      'Name: ',
      '王',
      '#1',
      'is ',
      'Mr. A ',
      '$1,',
    ])
      expect(generalizeText(piece.repeat(8_000 / piece.length)).length).toBeLessThan(80_000);
  });
});

// -----------------------------------------------------------------------------------------------------------------

const TRAJECTORIES = sharedFile('trajectories/tune.jsonl.gz');

interface Message {
  role: string;
  content: string | null;
  tool_calls?: { function: { arguments: string } }[];
}

/** Strings and numbers of calls and results that belong to the run's customer. */
function readValues(messages: readonly Message[]): Set<string> {
  const values = new Set<string>();
  const visit = (value: unknown, key: string): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, key);
    else if (typeof value === 'object' && value !== null) {
      for (const [name, item] of Object.entries(value)) {
        if (/\d{3}/.test(name)) values.add(name);
        visit(item, name);
      }
    } else if (typeof value === 'number' && Math.abs(value) >= 20) values.add(String(value));
    else if (
      typeof value === 'string' &&
      (/\d{3}/.test(value) || /name|city|address|email/.test(key)) &&
      value.length > 3
    ) {
      values.add(value);
      if (/first_name|last_name|city/.test(key)) for (const word of value.split(' ')) values.add(word);
    }
  };
  for (const { role, content, tool_calls } of messages) {
    const texts = [
      role === 'tool' ? content : null,
      ...(tool_calls ?? []).map((call) => call.function.arguments),
    ];
    for (const text of texts) {
      if (text !== null && /^[{[]/.test(text)) visit(JSON.parse(text), '');
    }
  }
  return values;
}

describe.skipIf(!TRAJECTORIES.is_there)(`customer-service runs ${TRAJECTORIES.needed}`, () => {
  it('make patterns without a value of their customer', { tags: 'long' }, () => {
    let count = 0;
    for (const line of gunzipSync(readFileSync(TRAJECTORIES.path)).toString().trim().split('\n')) {
      const { messages, passed } = JSON.parse(line) as { messages: Message[]; passed: boolean };
      // Each run is read with its own outcome and as a success, so that all failures in it are tested.
      for (const outcome of [passed ? 'success' : 'failure', 'success']) {
        const call = { seq: 0, model: '', is_error: false, request: { messages }, response: {} };
        const patterns = findPatterns(readCallTrace({ ...HEAD, task: '', outcome }, [call]));
        const secrets = [...readValues(messages)];
        for (const pattern of patterns) {
          count++;
          expectNone(textOf(pattern), secrets);
        }
      }
    }
    expect(count).toBeGreaterThan(25);
  });
});
