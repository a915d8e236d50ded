/** The worlds and policies of the synthetic agent families; see agent-families.ts. Bench process. */

import type { Prng } from '../../src/std/prng.ts';
import type { Act, AgentFamily, LoggedCall, WireTool } from './agent-family.ts';

export function pick<T>(random: Prng, items: readonly T[]): T {
  return items[random.below(items.length)]!;
}
export function digits(random: Prng, count: number): string {
  let text = String(1 + random.below(9));
  while (text.length < count) text += String(random.below(10));
  return text;
}
export function hex(random: Prng, count: number): string {
  let text = '';
  while (text.length < count) text += random.below(16).toString(16);
  return text;
}
export function money(random: Prng, from: number, to: number): number {
  return Math.round((from + random.float() * (to - from)) * 100) / 100;
}
export function date(random: Prng): string {
  const pad = (n: number): string => String(n).padStart(2, '0');
  return `2026-${pad(1 + random.below(12))}-${pad(1 + random.below(28))}`;
}
const GIVEN =
  'Alice Bruno Chen Dana Elif Farid Greta Hugo Ines Jonas Keiko Lena Marco Nadia Omar Priya Quinn Rosa Sven Tariq Uma Victor Wanda Xavier Yara Zoe'.split(
    ' ',
  );
const FAMILY =
  'Adler Brandt Costa Diaz Eriksen Fischer Garcia Haddad Ivanov Jansen Kaya Lopez Moreau Novak Okafor Patel Quist Rossi Sato Tanaka Ueda Varga Weber Xu Yilmaz Zhang'.split(
    ' ',
  );
const DOMAINS = ['example.com', 'mail.example.org', 'acme.test', 'post.example.net'];
export function person(random: Prng): { name: string; email: string } {
  const given = pick(random, GIVEN);
  const family = pick(random, FAMILY);
  return {
    name: `${given} ${family}`,
    email: `${given}.${family}${random.below(90)}@${pick(random, DOMAINS)}`.toLowerCase(),
  };
}
export function tool(
  name: string,
  description: string,
  properties: Record<string, string>,
  optional: string[] = [],
): WireTool {
  return {
    name,
    description,
    input_schema: {
      type: 'object',
      properties: Object.fromEntries(Object.entries(properties).map(([key, type]) => [key, { type }])),
      required: Object.keys(properties).filter((key) => !optional.includes(key)),
    },
  };
}
const FILLER = [
  'Note: the nightly sync ran late, caches may be a few minutes behind.',
  'This record was migrated from the previous system.',
  'Maintenance window announced for Sunday.',
  'Contact the data team about field definitions.',
  'Viewed recently by another colleague.',
];
export function lastOf(log: readonly LoggedCall[], name: string): LoggedCall | undefined {
  return log.findLast((call) => call.name === name);
}
function okOf(log: readonly LoggedCall[], name: string): LoggedCall | undefined {
  return log.findLast((call) => call.name === name && !call.is_error);
}
export function call(name: string, input: Record<string, unknown>, say?: string): Act {
  return say === undefined ? { calls: [{ name, input }] } : { calls: [{ name, input }], say };
}
export function maybe(random: Prng, text: string): string | undefined {
  return random.chance(0.5) ? text : undefined;
}
export const json = (value: unknown): { text: string } => ({ text: JSON.stringify(value) });
export const fail = (text: string): { text: string; is_error: true } => ({ text, is_error: true });

/** Makes the noise that real prompts contain: the time, the place and the session. */
export function requestNoise(random: Prng): string {
  return [
    `Current date: ${pick(random, ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday'])}, ${date(random)}`,
    `Session: ${hex(random, 8)}-${hex(random, 4)}-${hex(random, 12)}`,
    `Operator on duty: ${person(random).name}`,
  ].join('\n');
}

// ---------------------------------------------------------------- order support

interface OrderWorld {
  order_id: string;
  said_id: string;
  customer: { id: string; name: string; email: string; tier: string };
  item: string;
  amount: number;
  status: string;
  carrier: string;
  wants: string;
  distractors: Record<string, unknown>;
  done: string;
}
const ITEMS = [
  'walnut desk lamp',
  'ceramic teapot',
  'running shoes',
  'noise cancelling headphones',
  'cast iron pan',
  'linen duvet',
  'bike pump',
  'espresso grinder',
  'wool scarf',
  'travel backpack',
];
/** Decides the next act for a delivered order: a refund, or a person's approval of it. */
function refund(w: OrderWorld, log: readonly LoggedCall[], random: Prng): Act {
  const id = w.order_id;
  const amount = w.amount.toFixed(2);
  if (w.amount > 200) {
    const ticket = lastOf(log, 'escalate');
    if (ticket === undefined)
      return call('escalate', {
        order_id: id,
        queue: 'refunds',
        note: `Refund of ${amount} EUR needs approval`,
      });
    return {
      final: pick(random, [
        `Since ${amount} EUR needs an approval, I've handed your refund for ${id} to a colleague. Your ticket is ${String(ticket.json?.ticket)}.`,
        `Your refund for ${id} (${amount} EUR) needs an approval; a colleague has it now under ticket ${String(ticket.json?.ticket)}.`,
      ]),
    };
  }
  const refunded = okOf(log, 'refund_order');
  if (refunded === undefined)
    return call(
      'refund_order',
      { order_id: id, amount: w.amount, currency: 'EUR' },
      maybe(random, `The order was delivered, so I can refund ${amount} EUR.`),
    );
  return {
    final: pick(random, [
      `I've refunded ${amount} EUR for order ${id}. It should reach your account within ${String(refunded.json?.eta_days)} days.`,
      `Your refund of ${amount} EUR for order ${id} is on its way and should reach your account within ${String(refunded.json?.eta_days)} days.`,
      `Done! Order ${id} is refunded: ${amount} EUR, which should reach your account within ${String(refunded.json?.eta_days)} days.`,
    ]),
  };
}

const ORDERS: AgentFamily<OrderWorld> = {
  name: 'order_support',
  tools: [
    tool('get_order', 'Look an order up by its id', { order_id: 'string' }),
    tool('find_orders', 'Orders of a customer by e-mail, latest first', { email: 'string' }),
    tool('get_customer', 'A customer by id', { customer_id: 'string' }),
    tool('refund_order', 'Refund a delivered order', {
      order_id: 'string',
      amount: 'number',
      currency: 'string',
    }),
    tool('cancel_order', 'Cancel an order that has not left', { order_id: 'string' }),
    tool('open_carrier_claim', 'For orders on their way', {
      order_id: 'string',
      carrier: 'string',
      priority: 'string',
    }),
    tool('escalate', 'Hand over to a human', { order_id: 'string', queue: 'string', note: 'string' }),
  ],
  makeWorld(random, isShifted) {
    const customer = person(random);
    const order = `ORD-${digits(random, 6)}`;
    return {
      order_id: order,
      said_id: random.chance(0.12) ? `ORD-${digits(random, 5)}` : order,
      customer: {
        id: `CUS${digits(random, 5)}`,
        ...customer,
        tier: pick(random, ['standard', 'standard', 'silver', 'gold']),
      },
      item: pick(random, ITEMS),
      amount: random.chance(0.3) ? money(random, 205, 900) : money(random, 8, 195),
      status:
        isShifted && random.chance(0.5)
          ? 'held_customs'
          : pick(random, [
              'delivered',
              'delivered',
              'pending',
              'in_transit',
              ...(random.chance(0.2) ? ['lost'] : []),
            ]),
      carrier: pick(random, ['DHL', 'UPS', 'PostNord', 'FedEx']),
      wants: isShifted ? 'address' : 'money',
      distractors: {
        warehouse: pick(random, ['W1', 'W2', 'W3', 'W7']),
        weight_g: random.below(5000),
        internal_ref: hex(random, 10),
        created_at: `${date(random)}T0${random.below(10)}:1${random.below(10)}:00Z`,
        notes: random.chance(0.4) ? pick(random, FILLER) : '',
      },
      done: '',
    };
  },
  system: (_w, random) => `You are a support agent of Northwind Goods.
Resolve the customer's request with the tools, then answer the customer.
Refunds above 200 EUR go to the refunds queue. Orders that have not left are cancelled.
${requestNoise(random)}
Never promise delivery dates. Be brief and kind.`,
  task(w, random) {
    if (w.wants === 'address')
      return pick(random, [
        `Hi, I moved last week. Could you change the delivery address of ${w.said_id} to ${random.below(200)} Harbour Street? My e-mail is ${w.customer.email}.`,
        `New address for order ${w.said_id} please: ${random.below(90)} Hill Road. Thanks, ${w.customer.name} (${w.customer.email})`,
      ]);
    return pick(random, [
      `Hello, I'd like my money back for order ${w.said_id}, the ${w.item}. You can reach me at ${w.customer.email}. ${w.customer.name}`,
      `The ${w.item} from order ${w.said_id} is not what I expected. Please refund it. My account is ${w.customer.email}`,
      `Refund request\nOrder: ${w.said_id}\nE-mail: ${w.customer.email}\nReason: ${pick(random, ['arrived broken', 'wrong colour', 'too late', 'changed my mind', 'found it cheaper'])}`,
      `hey can i return ${w.said_id}? ordered it ${2 + random.below(20)} days ago. mail ${w.customer.email}`,
    ]);
  },
  call(w, name, input) {
    const known = input.order_id === w.order_id;
    switch (name) {
      case 'get_order':
        if (!known) return fail(`Order ${String(input.order_id)} not found`);
        return json({
          order_id: w.order_id,
          customer_id: w.customer.id,
          status: w.status,
          total: { amount: w.amount, currency: 'EUR' },
          items: [{ sku: `SKU-${w.customer.id.slice(3)}`, title: w.item, quantity: 1 }],
          shipping: {
            carrier: w.carrier,
            tracking: w.status === 'pending' ? null : `TR${w.customer.id.slice(3)}EU`,
          },
          ...w.distractors,
        });
      case 'find_orders':
        if (input.email !== w.customer.email) return json({ orders: [] });
        return json({
          orders: [
            { order_id: w.order_id, placed: '2026-03-02', status: w.status },
            { order_id: `ORD-${w.customer.id.slice(3)}1`, placed: '2025-11-20', status: 'archived' },
          ],
        });
      case 'get_customer':
        if (input.customer_id !== w.customer.id) return fail('no such customer');
        return json({
          ...w.customer,
          since: 2015 + ((w.amount % 9) | 0),
          marketing: w.amount > 90,
          locale: 'en',
        });
      case 'refund_order':
        if (!known || w.status !== 'delivered') return fail('refund refused');
        w.done = `refund ${String(input.amount)} ${String(input.currency)}`;
        return json({
          refund_id: `RF-${w.customer.id.slice(3)}`,
          state: 'accepted',
          eta_days: 3 + ((w.order_id.length + Number(w.customer.id.slice(3))) % 4),
        });
      case 'cancel_order':
        if (!known || w.status !== 'pending') return fail('cannot be cancelled');
        w.done = 'cancel';
        return json({ state: 'cancelled' });
      case 'open_carrier_claim':
        if (!known) return fail('unknown order');
        w.done = `claim ${String(input.carrier)} ${String(input.priority)}`;
        return json({ claim_id: `CL-${w.customer.id.slice(3)}`, carrier: w.carrier });
      default:
        w.done = `escalate ${String(input.queue)}`;
        return json({ ticket: `T-${w.customer.id.slice(3)}` });
    }
  },
  act(w, log, random) {
    const first = lastOf(log, 'get_order');
    if (first === undefined)
      return call(
        'get_order',
        { order_id: w.said_id },
        maybe(random, pick(random, ["I'll look that order up.", 'Let me check the order first.'])),
      );
    const found = lastOf(log, 'find_orders');
    if (first.is_error && found === undefined)
      return call(
        'find_orders',
        { email: w.customer.email },
        maybe(random, 'That id is not known; searching by e-mail.'),
      );
    const order = okOf(log, 'get_order');
    if (order === undefined)
      return call('get_order', { order_id: found?.json?.orders?.[0]?.order_id ?? w.order_id });
    const id = w.order_id;
    if (w.wants === 'address') {
      const ticket = lastOf(log, 'escalate');
      if (ticket === undefined)
        return call('escalate', {
          order_id: id,
          queue: 'address_changes',
          note: 'Customer asks for a new delivery address',
        });
      return {
        final: `I've passed your new address for ${id} on to our colleagues (${String(ticket.json?.ticket)}).`,
      };
    }
    switch (w.status) {
      case 'delivered':
        return refund(w, log, random);
      case 'pending':
        if (okOf(log, 'cancel_order') === undefined) return call('cancel_order', { order_id: id });
        return {
          final: pick(random, [
            `Order ${id} had not left our warehouse yet, so I've cancelled it. You will not be charged.`,
            `I've cancelled order ${id}, since it had not left our warehouse yet. You will not be charged.`,
          ]),
        };
      case 'in_transit': {
        const customer = okOf(log, 'get_customer');
        if (customer === undefined) return call('get_customer', { customer_id: w.customer.id });
        const claim = okOf(log, 'open_carrier_claim');
        if (claim === undefined)
          return call('open_carrier_claim', {
            order_id: id,
            carrier: w.carrier,
            priority: w.customer.tier === 'gold' ? 'high' : 'normal',
          });
        return {
          final: `Your order ${id} is still on its way with ${w.carrier}. I've opened claim ${String(claim.json?.claim_id)} so that it comes back to us.`,
        };
      }
      default: {
        const ticket = lastOf(log, 'escalate');
        if (ticket === undefined)
          return call('escalate', {
            order_id: id,
            queue: w.status === 'lost' ? 'lost_parcels' : 'special_cases',
            note: `Status ${w.status}`,
          });
        return {
          final: `I've asked a specialist to look into order ${id}; your ticket is ${String(ticket.json?.ticket)}.`,
        };
      }
    }
  },
  isDone(w, _log, final) {
    if (!final.includes(w.order_id)) return false;
    if (w.wants === 'address') return w.done === 'escalate address_changes';
    switch (w.status) {
      case 'delivered':
        return w.amount > 200
          ? w.done === 'escalate refunds'
          : w.done === `refund ${w.amount} EUR` && final.includes(w.amount.toFixed(2));
      case 'pending':
        return w.done === 'cancel';
      case 'in_transit':
        return w.done === `claim ${w.carrier} ${w.customer.tier === 'gold' ? 'high' : 'normal'}`;
      default:
        return w.done.startsWith('escalate');
    }
  },
};

// ---------------------------------------------------------------- incident triage

interface IncidentWorld {
  alert: string;
  service: string;
  cause: string;
  region: string;
  rate: number;
  versions: string[];
  host: string;
  team: string;
  done: string[];
  tail: string;
}
const CAUSES = ['oom', 'dns', 'bad_deploy', 'flaky', 'bad_deploy', 'oom'];
const INCIDENTS: AgentFamily<IncidentWorld> = {
  name: 'incident_triage',
  tools: [
    tool('query_logs', 'Latest error lines of a service', {
      service: 'string',
      region: 'string',
      minutes: 'integer',
    }),
    tool('list_deploys', 'Deploys of a service, latest first', { service: 'string' }),
    tool('service_owner', 'Who owns a service', { service: 'string' }),
    tool('rollback', 'Roll a service back', { service: 'string', version: 'string' }),
    tool('restart_pod', 'Restart one pod', { pod: 'string', region: 'string' }),
    tool('page', 'Page a team', { team: 'string', severity: 'string', title: 'string' }),
    tool('write_summary', 'Write what happened into the incident channel', {
      alert_id: 'string',
      text: 'string',
    }),
    tool('close_alert', 'Close the alert', { alert_id: 'string', resolution: 'string' }),
  ],
  makeWorld(random, isShifted) {
    const service = pick(random, [
      'checkout',
      'search-api',
      'ledger',
      'mailer',
      'image-proxy',
      'auth-gateway',
      'pricing',
      'inventory-sync',
    ]);
    const major = 1 + random.below(5);
    const minor = 2 + random.below(30);
    return {
      alert: `ALRT-${digits(random, 5)}`,
      service,
      cause: isShifted ? 'certificate' : pick(random, CAUSES),
      region: pick(random, ['eu-west-1', 'us-east-1', 'ap-south-1']),
      rate: 2 + random.below(60),
      versions: [
        `v${major}.${minor}.${random.below(9)}`,
        `v${major}.${minor - 1}.${random.below(9)}`,
        `v${major}.${minor - 2}.0`,
      ],
      host: `${service}-${hex(random, 5)}`,
      team: pick(random, ['payments', 'platform', 'discovery', 'messaging']),
      done: [],
      tail: hex(random, 12),
    };
  },
  system: (
    _w,
    random,
  ) => `You triage production alerts. Find the cause in the logs, act, write a summary, close the alert.
Out of memory: restart the pod. Errors since a deploy: roll back to the version before. Name resolution: page the owners.
Errors that stopped by themselves need nothing but closing.
cwd: /srv/triage/${hex(random, 6)}
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `[${w.alert}] ${w.service} error rate ${w.rate}% in ${w.region}. Please triage.`,
      `Alert ${w.alert} fired: service=${w.service} region=${w.region} error_rate=${w.rate}%`,
      `New page: ${w.service} is failing ${w.rate}% of requests (${w.region}), alert id ${w.alert}. Take a look?`,
    ]),
  call(w, name, input) {
    switch (name) {
      case 'query_logs': {
        if (input.service !== w.service) return fail(`unknown service ${String(input.service)}`);
        const at = (s: number): string =>
          `2026-05-0${1 + (w.rate % 8)}T1${w.rate % 10}:0${s}:1${w.rate % 9}Z`;
        const lines: Record<string, string[]> = {
          oom: [
            `${at(1)} ERROR pod ${w.host} OOMKilled exit code 137`,
            `${at(2)} WARN container memory at limit trace=${w.tail}`,
          ],
          dns: [
            `${at(1)} ERROR lookup db.internal failed: temporary failure in name resolution`,
            `${at(3)} ERROR upstream unavailable trace=${w.tail}`,
          ],
          bad_deploy: [
            `${at(1)} INFO started ${w.versions[0]} on ${w.host}`,
            `${at(2)} ERROR TypeError: cannot read properties of undefined trace=${w.tail}`,
          ],
          flaky: [`${at(1)} WARN slow response trace=${w.tail}`, `${at(4)} INFO error rate back to normal`],
          certificate: [`${at(1)} ERROR x509: certificate has expired or is not yet valid trace=${w.tail}`],
        };
        return { text: [...lines[w.cause]!, `(${20 + w.rate} more lines)`].join('\n') };
      }
      case 'list_deploys':
        return json({
          service: w.service,
          deploys: w.versions.map((version, i) => ({
            version,
            by: GIVEN[(w.rate + i) % GIVEN.length],
            age_minutes: 12 + 700 * i + w.rate,
            canary: false,
          })),
        });
      case 'service_owner':
        return json({
          service: w.service,
          team: w.team,
          channel: `#${w.team}-alerts`,
          manager: GIVEN[w.rate % GIVEN.length],
        });
      case 'rollback':
        if (!w.versions.includes(String(input.version))) return fail('no such version');
        w.done.push(`rollback ${String(input.version)}`);
        return { text: `Rolled ${w.service} back to ${String(input.version)}. Error rate is 0.1%.` };
      case 'restart_pod':
        w.done.push(`restart ${String(input.pod)}`);
        if (input.pod !== w.host) return fail('no such pod');
        return { text: `pod ${w.host} restarted in ${w.region}` };
      case 'page':
        w.done.push(`page ${String(input.team)} ${String(input.severity)}`);
        return json({ page_id: `PG${w.tail.slice(0, 6)}`, acknowledged: true });
      case 'write_summary':
        return { text: 'posted' };
      default:
        if (input.alert_id !== w.alert) return fail('no such alert');
        w.done.push(`close ${String(input.resolution)}`);
        return json({ alert: w.alert, state: 'closed' });
    }
  },
  act(w, log, random) {
    if (log.length === 0 || (log.length === 1 && log[0]!.is_error))
      return call(
        'query_logs',
        { service: w.service, region: w.region, minutes: 15 },
        maybe(random, `Checking the logs of ${w.service}.`),
      );
    const close = (resolution: string): Act => {
      if (lastOf(log, 'write_summary') === undefined && resolution !== 'self_recovered') {
        // Free words, which cannot be predicted.
        const text = [
          pick(random, ['Impact:', 'What we saw:', 'Summary:', 'Timeline:']),
          pick(random, [
            'customers noticed',
            'a share of requests failed',
            'dashboards turned red',
            'we saw elevated errors',
          ]),
          pick(random, ['for a few minutes', 'since the morning', 'shortly after lunch', 'in one zone only']),
          `(${w.rate}% in ${w.region}).`,
          pick(random, ['Mitigated now.', 'We keep watching.', 'Follow-up planned.', 'Root cause known.']),
          pick(random, ['Thanks all.', 'More tomorrow.', 'Ticket to come.', '']),
        ].join(' ');
        return call('write_summary', { alert_id: w.alert, text });
      }
      if (!w.done.some((done) => done.startsWith('close')))
        return call('close_alert', { alert_id: w.alert, resolution });
      return {
        final: pick(random, [
          `${w.alert} is closed (${resolution}).`,
          `Alert ${w.alert} closed with resolution ${resolution}.`,
          `Closed alert ${w.alert}: ${resolution}.`,
        ]),
      };
    };
    switch (w.cause) {
      case 'oom':
        if (!w.done.includes(`restart ${w.host}`))
          return call(
            'restart_pod',
            { pod: w.host, region: w.region },
            maybe(random, 'The pod ran out of memory.'),
          );
        return close('restarted');
      case 'bad_deploy':
        if (lastOf(log, 'list_deploys') === undefined) return call('list_deploys', { service: w.service });
        if (!w.done.some((done) => done.startsWith('rollback')))
          return call('rollback', { service: w.service, version: w.versions[1]! });
        return close('rolled_back');
      case 'dns':
      case 'certificate': {
        const owner = okOf(log, 'service_owner');
        if (owner === undefined) return call('service_owner', { service: w.service });
        if (!w.done.some((done) => done.startsWith('page')))
          return call('page', {
            team: w.team,
            severity: w.cause === 'dns' ? 'sev2' : 'sev1',
            title: `${w.service} failing in ${w.region}`,
          });
        return close('paged');
      }
      default:
        return close('self_recovered');
    }
  },
  isDone(w, _log, final) {
    const wanted: Record<string, string[]> = {
      oom: [`restart ${w.host}`, 'close restarted'],
      bad_deploy: [`rollback ${w.versions[1]}`, 'close rolled_back'],
      dns: [`page ${w.team} sev2`, 'close paged'],
      certificate: [`page ${w.team} sev1`, 'close paged'],
      flaky: ['close self_recovered'],
    };
    const should = wanted[w.cause]!;
    return (
      w.done.length === should.length &&
      should.every((action, i) => w.done[i] === action) &&
      final.includes(w.alert)
    );
  },
};

// ---------------------------------------------------------------- data entry

interface EntryWorld {
  file: string;
  table: string;
  rows: { ref: string; name: string; email: string; amount: string; state: string }[];
  existing: Set<string>;
  written: string[];
}
const ENTRY: AgentFamily<EntryWorld> = {
  name: 'data_entry',
  tools: [
    tool('read_sheet', 'Rows of a sheet', { file: 'string' }),
    tool('insert_record', 'Add a record', {
      table: 'string',
      ref: 'string',
      email: 'string',
      amount: 'number',
      active: 'boolean',
    }),
    tool('update_record', 'Change a record', { table: 'string', ref: 'string', amount: 'number' }),
  ],
  makeWorld(random, isShifted) {
    const rows = Array.from({ length: 2 + random.below(4) }, () => {
      const { name, email } = person(random);
      return {
        ref: `R${digits(random, 4)}`,
        name,
        email: random.chance(0.5) ? email.toUpperCase() : email,
        amount: isShifted ? `${money(random, 10, 900)} USD` : String(money(random, 10, 900)),
        state: pick(random, ['active', 'active', 'inactive']),
      };
    });
    return {
      file: `${pick(random, ['intake', 'partners', 'renewals', 'q3_leads'])}_${digits(random, 4)}.csv`,
      table: pick(random, ['contacts', 'accounts', 'donors']),
      rows,
      existing: new Set(rows.filter(() => random.chance(0.15)).map(({ ref }) => ref)),
      written: [],
    };
  },
  system: (_w, random) => `You copy rows of sheets into the database, one call a row, in order.
E-mails are stored in lower case and amounts as numbers. A record that exists already is updated.
Workspace: /home/agent/work-${hex(random, 6)}
${requestNoise(random)}`,
  task: (w, random) =>
    pick(random, [
      `Please import ${w.file} into the ${w.table} table.`,
      `Load the sheet ${w.file} into table ${w.table}, thanks!`,
      `${w.file} should go into the ${w.table} table. ${pick(random, FILLER)}`,
    ]),
  call(w, name, input) {
    if (name === 'read_sheet') {
      if (input.file !== w.file) return fail(`no such file: ${String(input.file)}`);
      return json({
        file: w.file,
        columns: ['ref', 'name', 'email', 'amount', 'state'],
        rows: w.rows.map((row, i) => ({ line: i + 2, ...row })),
        checksum: w.file.length * 7919,
      });
    }
    const row = w.rows.find(({ ref }) => ref === input.ref);
    if (name === 'insert_record') {
      if (row !== undefined && w.existing.has(row.ref))
        return fail(`duplicate key: ${row.ref} exists already`);
      w.written.push(
        `${String(input.table)} ${String(input.ref)} ${String(input.email)} ${String(input.amount)} ${String(input.active)}`,
      );
      return json({ ok: true, id: 1000 + w.written.length, ref: input.ref });
    }
    w.written.push(`${String(input.table)} ${String(input.ref)} update ${String(input.amount)}`);
    return json({ ok: true, updated: input.ref });
  },
  act(w, log, random) {
    if (lastOf(log, 'read_sheet') === undefined) return call('read_sheet', { file: w.file });
    const last = log[log.length - 1]!;
    const next = w.written.length;
    const row = w.rows[next];
    if (row !== undefined) {
      const amount = Number.parseFloat(row.amount);
      if (last.name === 'insert_record' && last.is_error)
        return call(
          'update_record',
          { table: w.table, ref: row.ref, amount },
          maybe(random, `${row.ref} exists already, so I update it.`),
        );
      return call('insert_record', {
        table: w.table,
        ref: row.ref,
        email: row.email.toLowerCase(),
        amount,
        active: row.state === 'active',
      });
    }
    return {
      final: pick(random, [
        `All ${w.rows.length} rows of ${w.file} are now in ${w.table}.`,
        `Imported ${w.rows.length} rows from ${w.file} into ${w.table}.`,
        `Done: ${w.rows.length} rows of ${w.file} imported into ${w.table}.`,
      ]),
    };
  },
  isDone: (w, _log, final) =>
    w.written.length === w.rows.length &&
    final.includes(w.file) &&
    w.rows.every(({ ref, email, amount, state }, i) => {
      const number = Number.parseFloat(amount);
      return (
        w.written[i] ===
        (w.existing.has(ref)
          ? `${w.table} ${ref} update ${number}`
          : `${w.table} ${ref} ${email.toLowerCase()} ${number} ${state === 'active'}`)
      );
    }),
};

// ---------------------------------------------------------------- code fixes

interface CodeWorld {
  cwd: string;
  project: string;
  file: string;
  test: string;
  error: string;
  fixes: number;
  needed: number;
  passed: number;
  line: number;
}
const CODE: AgentFamily<CodeWorld> = {
  name: 'code_fix',
  tools: [
    tool('run_command', 'Run a shell command', { command: 'string', timeout_s: 'integer' }, ['timeout_s']),
    tool('read_file', 'Read a file', { path: 'string' }),
    tool('edit_file', 'Replace text in a file', { path: 'string', old_text: 'string', new_text: 'string' }),
  ],
  makeWorld(random, isShifted) {
    const part = pick(random, [
      'cart',
      'parser',
      'invoice',
      'session',
      'router',
      'cache',
      'export',
      'billing',
    ]);
    return {
      cwd: `/home/dev/${pick(random, ['shop', 'atlas', 'pixel', 'orbit'])}-${hex(random, 5)}`,
      project: pick(random, ['shop', 'atlas', 'pixel', 'orbit']),
      file: `src/${part}.py`,
      test: `tests/test_${part}.py::test_${pick(random, ['total', 'empty', 'rounding', 'unicode', 'limits'])}`,
      error: isShifted
        ? 'ModuleNotFoundError'
        : pick(random, ['AssertionError', 'AssertionError', 'KeyError', 'TypeError']),
      fixes: 0,
      needed: random.chance(0.25) ? 2 : 1,
      passed: 12 + random.below(80),
      line: 10 + random.below(300),
    };
  },
  system: (
    w,
    random,
  ) => `You fix failing tests. Run the tests, read the file under test, edit it, run the tests again.
<env>
Working directory: ${w.cwd}
Platform: linux
Today's date: ${date(random)}
</env>
Always pass absolute paths. Say in one sentence what you did.`,
  task: (w, random) =>
    pick(random, [
      'The test suite is red. Please make it green again.',
      'CI fails on main, can you fix the failing test?',
      `Tests are failing since ${pick(random, ['this morning', 'the last merge', 'yesterday'])}, please fix.`,
    ]) +
    (random.chance(0.3) ? `\n\n${pick(random, FILLER)}` : '') +
    (w.line % 5 === 0 ? '\nThanks!' : ''),
  call(w, name, input) {
    if (name === 'run_command') {
      if (String(input.command).startsWith('pip')) {
        w.fixes++;
        return { text: 'Successfully installed 1 package' };
      }
      if (input.command !== `cd ${w.cwd} && python -m pytest -q`)
        return fail('bash: command failed with exit code 2');
      if (w.fixes >= w.needed)
        return { text: `${'.'.repeat(12)} [100%]\n${w.passed} passed in ${(w.passed / 31).toFixed(2)}s` };
      const seen = w.fixes === 0 ? w.error : 'AssertionError';
      return fail(
        `${'.'.repeat(6)}F${'.'.repeat(5)} [100%]\n=== FAILURES ===\n${w.file}:${w.line}: ${seen}\n=== short test summary info ===\nFAILED ${w.test} - ${seen}\n1 failed, ${w.passed - 1} passed in ${(w.passed / 29).toFixed(2)}s`,
      );
    }
    if (input.path !== `${w.cwd}/${w.file}`) return fail(`No such file: ${String(input.path)}`);
    if (name === 'read_file')
      return {
        text: `import math\n\nclass ${w.project.toUpperCase()}:\n    def run(self, items):\n        total_${w.line} = sum(items) ${w.line % 2 === 0 ? '-' : '+'} ${w.line}\n        return total_${w.line}\n`,
      };
    w.fixes++;
    return { text: `Edited ${w.cwd}/${w.file}` };
  },
  act(w, log, random) {
    const last = log[log.length - 1];
    const test = { command: `cd ${w.cwd} && python -m pytest -q` };
    if (last === undefined) return call('run_command', test, maybe(random, "I'll run the tests first."));
    if (last.name === 'run_command' && last.input.command === test.command) {
      if (!last.is_error)
        return {
          final: pick(random, [
            `All ${w.passed} tests pass now; the fix is in ${w.file}.`,
            `Fixed ${w.file}: all ${w.passed} tests pass now.`,
            `The suite is green again: ${w.passed} tests pass. I changed ${w.file}.`,
          ]),
        };
      if (w.error === 'ModuleNotFoundError' && w.fixes === 0)
        return call('run_command', { command: `pip install ${w.project}-core` });
      return call('read_file', { path: `${w.cwd}/${w.file}` });
    }
    if (last.name === 'read_file' && !last.is_error) {
      const line = last.text.split('\n')[4] ?? '';
      return call(
        'edit_file',
        {
          path: `${w.cwd}/${w.file}`,
          old_text: line,
          new_text: `        ${pick(random, ['# keep the sum exact', '# guard', '# see the test', ''])}\n        total_${w.line} = ${pick(random, ['math.fsum(items)', 'sum(items) or 0', 'sum(x for x in items if x)', 'max(0, sum(items))'])}`,
        },
        maybe(random, `The sum in ${w.file} is off by ${w.line}.`),
      );
    }
    if (last.name === 'run_command' && !String(last.input.command).startsWith('pip'))
      return call('run_command', test);
    return last.is_error ? call('read_file', { path: `${w.cwd}/${w.file}` }) : call('run_command', test);
  },
  isDone: (w, _log, final) => w.fixes >= w.needed && final.includes(String(w.passed)),
};

// ---------------------------------------------------------------- travel

interface Flight {
  flight_id: string;
  carrier: string;
  departs: string;
  price: number;
  stops: number;
  seats: number;
}
interface TravelWorld {
  traveller: string;
  from: string;
  to: string;
  day: string;
  nights: number;
  flights: Flight[];
  hotels: { hotel_id: string; name: string; rating: number; per_night: number }[];
  soldOut: string;
  flight: string;
  hotel: string;
  mode: string;
  refs: string;
}
const CITIES = [
  'Lisbon',
  'Oslo',
  'Vienna',
  'Prague',
  'Madrid',
  'Dublin',
  'Athens',
  'Warsaw',
  'Helsinki',
  'Rome',
  'Porto',
  'New York',
  'Buenos Aires',
  'Cape Town',
];
const HOTELS = [
  'Grand Plaza',
  'Old Mill Inn',
  'Harbour House',
  'The Lantern',
  'Station Lodge',
  'Park View',
  'Blue Door',
];
const cheapest = (flights: readonly Flight[]): Flight =>
  flights.reduce((best, flight) => (flight.price < best.price ? flight : best));
const TRAVEL: AgentFamily<TravelWorld> = {
  name: 'travel_booking',
  tools: [
    tool('search_flights', 'Flights of a day', { origin: 'string', destination: 'string', date: 'string' }),
    tool('book_flight', 'Book a flight', { flight_id: 'string', passenger: 'string' }),
    tool('search_hotels', 'Hotels in a city', { city: 'string', check_in: 'string', nights: 'integer' }),
    tool('book_hotel', 'Book a hotel', {
      hotel_id: 'string',
      guest: 'string',
      check_in: 'string',
      nights: 'integer',
    }),
    tool('search_trains', 'Trains of a day', { origin: 'string', destination: 'string', date: 'string' }),
  ],
  makeWorld(random, isShifted) {
    const from = pick(random, CITIES);
    const to = pick(
      random,
      CITIES.filter((city) => city !== from),
    );
    const flights = Array.from(
      { length: 3 + random.below(4) },
      (): Flight => ({
        flight_id: `FL${digits(random, 4)}${pick(random, ['A', 'B', 'C'])}`,
        carrier: pick(random, ['Aerolux', 'Nordfly', 'Sol Air', 'BlueJet']),
        departs: `${String(6 + random.below(14)).padStart(2, '0')}:${pick(random, ['05', '20', '35', '50'])}`,
        price: money(random, 60, 700),
        stops: random.below(2),
        seats: 1 + random.below(40),
      }),
    );
    return {
      traveller: person(random).name,
      from,
      to,
      day: date(random),
      nights: random.chance(0.35) ? 0 : 1 + random.below(6),
      flights,
      hotels: Array.from({ length: 3 }, (_, i) => ({
        hotel_id: `H-${digits(random, 5)}`,
        name: HOTELS[(random.below(3) + 2 * i) % HOTELS.length]!,
        rating: Math.round((3 + random.float() * 1.9) * 100) / 100,
        per_night: money(random, 50, 220),
      })),
      soldOut: random.chance(0.12) ? cheapest(flights).flight_id : '',
      flight: '',
      hotel: '',
      mode: isShifted ? 'train' : 'flight',
      refs: hex(random, 6).toUpperCase(),
    };
  },
  system: (
    _w,
    random,
  ) => `You book trips: the cheapest flight of the day, and the hotel with the best rating when nights are asked for.
Confirm with references. Prices are in EUR.
${requestNoise(random)}`,
  task(w, random) {
    if (w.mode === 'train')
      return `Please find me a train from ${w.from} to ${w.to} on ${w.day} for ${w.traveller}. No planes please.`;
    if (w.nights === 0)
      return pick(random, [
        `Book a one-way flight from ${w.from} to ${w.to} on ${w.day} for ${w.traveller}.`,
        `${w.traveller} needs to fly from ${w.from} to ${w.to} on ${w.day}. No hotel needed.`,
      ]);
    return pick(random, [
      `Book a trip from ${w.from} to ${w.to} on ${w.day} for ${w.traveller}, with ${w.nights} nights in a hotel.`,
      `${w.traveller} needs to fly from ${w.from} to ${w.to} on ${w.day} and stay for ${w.nights} nights in a hotel.`,
    ]);
  },
  call(w, name, input) {
    switch (name) {
      case 'search_flights':
        if (input.origin !== w.from || input.destination !== w.to || input.date !== w.day)
          return json({ flights: [] });
        return json({
          query: { from: w.from, to: w.to, date: w.day },
          flights: w.flights,
          currency: 'EUR',
          cached: w.nights % 2 === 0,
        });
      case 'book_flight':
        if (input.flight_id === w.soldOut) return fail(`Flight ${w.soldOut} is sold out`);
        w.flight = `${String(input.flight_id)} ${String(input.passenger)}`;
        return json({
          booking: `BK${w.refs}`,
          flight_id: input.flight_id,
          status: 'confirmed',
          price: w.flights.find((flight) => flight.flight_id === input.flight_id)?.price ?? 0,
        });
      case 'search_hotels':
        return json({ city: input.city, hotels: input.city === w.to ? w.hotels : [] });
      case 'book_hotel':
        w.hotel = `${String(input.hotel_id)} ${String(input.guest)} ${String(input.check_in)} ${String(input.nights)}`;
        return json({ reservation: `HT${w.refs}`, hotel_id: input.hotel_id, total: 100 });
      default:
        return json({ trains: [] });
    }
  },
  act(w, log, random) {
    if (w.mode === 'train') {
      if (log.length === 0) return call('search_trains', { origin: w.from, destination: w.to, date: w.day });
      return { final: `There is no train from ${w.from} to ${w.to} on ${w.day}, I'm sorry.` };
    }
    if (lastOf(log, 'search_flights') === undefined)
      return call(
        'search_flights',
        { origin: w.from, destination: w.to, date: w.day },
        maybe(random, pick(random, ['Searching flights.', `Looking for flights to ${w.to}.`])),
      );
    if (w.flight === '') {
      const tried = lastOf(log, 'book_flight');
      const open =
        tried === undefined ? w.flights : w.flights.filter((flight) => flight.flight_id !== w.soldOut);
      const best = cheapest(open);
      return call(
        'book_flight',
        { flight_id: best.flight_id, passenger: w.traveller },
        maybe(random, `${best.carrier} at ${best.price} EUR is the cheapest.`),
      );
    }
    const flight = w.flights.find((flight) => flight.flight_id === w.flight.split(' ')[0])!;
    if (flight === undefined) return { final: 'Something went wrong with the flight.' };
    if (w.nights > 0) {
      if (lastOf(log, 'search_hotels') === undefined)
        return call('search_hotels', { city: w.to, check_in: w.day, nights: w.nights });
      if (w.hotel === '') {
        const best = w.hotels.reduce((best, hotel) => (hotel.rating > best.rating ? hotel : best));
        return call('book_hotel', {
          hotel_id: best.hotel_id,
          guest: w.traveller,
          check_in: w.day,
          nights: w.nights,
        });
      }
      return {
        final: pick(random, [
          `Your trip to ${w.to} is booked: flight ${flight.flight_id} (BK${w.refs}) for ${flight.price} EUR and ${w.nights} nights, reservation HT${w.refs}.`,
          `Booked! Flight ${flight.flight_id} to ${w.to} for ${flight.price} EUR (BK${w.refs}), and ${w.nights} nights at the hotel, reservation HT${w.refs}.`,
        ]),
      };
    }
    return {
      final: pick(random, [
        `Flight ${flight.flight_id} from ${w.from} to ${w.to} is booked for ${flight.price} EUR. Reference: BK${w.refs}.`,
        `Done: flight ${flight.flight_id} from ${w.from} to ${w.to} booked for ${flight.price} EUR, reference BK${w.refs}.`,
      ]),
    };
  },
  isDone(w, _log, final) {
    if (w.mode === 'train') return w.flight === '' && final.includes(w.to);
    const open = w.flights.filter((flight) => flight.flight_id !== w.soldOut);
    if (w.flight !== `${cheapest(open).flight_id} ${w.traveller}`) return false;
    const best = w.hotels.reduce((best, hotel) => (hotel.rating > best.rating ? hotel : best));
    const hotel = w.nights === 0 ? '' : `${best.hotel_id} ${w.traveller} ${w.day} ${w.nights}`;
    return w.hotel === hotel && final.includes(`BK${w.refs}`);
  },
};

// ---------------------------------------------------------------- invoices

interface InvoiceWorld {
  invoice: string;
  po: string;
  vendor: string;
  vendorName: string;
  amount: number;
  poAmount: number;
  blocked: boolean;
  isNew: boolean;
  done: string;
}
const VENDORS = [
  'Halden Paper',
  'Ostrava Tools',
  'Lumen Studio',
  'Kite Logistics',
  'Marlow and Sons',
  'Tessera Print',
  'Bright Cleaning',
];
const INVOICES: AgentFamily<InvoiceWorld> = {
  name: 'invoice_check',
  tools: [
    tool('get_purchase_order', 'A purchase order', { po_number: 'string' }),
    tool('get_vendor', 'A vendor', { vendor_id: 'string' }),
    tool('approve_invoice', 'Approve for payment', {
      invoice_id: 'string',
      po_number: 'string',
      amount: 'number',
    }),
    tool(
      'flag_invoice',
      'Hold for a person',
      { invoice_id: 'string', reason: 'string', expected: 'number' },
      ['expected'],
    ),
  ],
  makeWorld(random, isShifted) {
    const poAmount = money(random, 40, 9000);
    return {
      invoice: `INV-${digits(random, 4)}-${digits(random, 3)}`,
      po: `PO${digits(random, 7)}`,
      vendor: `V${digits(random, 4)}`,
      vendorName: pick(random, VENDORS),
      amount: random.chance(0.3) ? Math.round((poAmount + money(random, 1, 80)) * 100) / 100 : poAmount,
      poAmount,
      blocked: random.chance(0.08),
      isNew: isShifted,
      done: '',
    };
  },
  system: (_w, random) => `You check invoices against purchase orders before they are paid.
Amounts must be equal to the cent. Invoices of blocked vendors are flagged.
${requestNoise(random)}`,
  task: (w, random) =>
    w.isNew
      ? `This is a credit note, not an invoice: ${w.invoice} over -${w.amount} EUR by ${w.vendorName}, for purchase order ${w.po}. Please record it.`
      : pick(random, [
          `Invoice ${w.invoice} from ${w.vendorName} arrived.\nAmount due: ${w.amount} EUR\nPurchase order: ${w.po}\nPlease check it.`,
          `Please check invoice ${w.invoice} (${w.vendorName}): ${w.amount} EUR against ${w.po}.`,
          `From: billing@${w.vendorName.split(' ')[0]!.toLowerCase()}.example\nSubject: ${w.invoice}\n\nDear team, we invoice ${w.amount} EUR for your order ${w.po}. Kind regards, ${w.vendorName}`,
        ]),
  call(w, name, input) {
    switch (name) {
      case 'get_purchase_order':
        if (input.po_number !== w.po) return fail('no such purchase order');
        return json({
          po_number: w.po,
          vendor_id: w.vendor,
          amount: w.poAmount,
          currency: 'EUR',
          approver: GIVEN[w.po.length],
          cost_center: 4000 + ((w.poAmount % 40) | 0),
          lines: 1 + ((w.poAmount % 5) | 0),
        });
      case 'get_vendor':
        return json({
          vendor_id: w.vendor,
          name: w.vendorName,
          status: w.blocked ? 'blocked' : 'active',
          iban_checked: true,
          risk_score: Math.round(w.poAmount % 97) / 100,
        });
      case 'approve_invoice':
        w.done = `approve ${String(input.invoice_id)} ${String(input.amount)}`;
        return json({ state: 'approved', payment_run: '2026-06' });
      default:
        w.done = `flag ${String(input.invoice_id)} ${String(input.reason)}`;
        return json({ state: 'on_hold' });
    }
  },
  act(w, log, random) {
    const po = okOf(log, 'get_purchase_order');
    if (po === undefined)
      return call('get_purchase_order', { po_number: w.po }, maybe(random, `Looking up ${w.po}.`));
    if (w.isNew) {
      if (w.done === '') return call('flag_invoice', { invoice_id: w.invoice, reason: 'credit_note' });
      return { final: `${w.invoice} is a credit note; I've put it on hold for a person to book.` };
    }
    if (okOf(log, 'get_vendor') === undefined) return call('get_vendor', { vendor_id: w.vendor });
    if (w.done === '') {
      if (w.blocked) return call('flag_invoice', { invoice_id: w.invoice, reason: 'vendor_blocked' });
      if (w.amount !== w.poAmount)
        return call('flag_invoice', {
          invoice_id: w.invoice,
          reason: 'amount_mismatch',
          expected: w.poAmount,
        });
      return call('approve_invoice', { invoice_id: w.invoice, po_number: w.po, amount: w.amount });
    }
    if (w.blocked) return { final: `${w.invoice} is on hold: ${w.vendorName} is blocked.` };
    if (w.amount !== w.poAmount)
      return {
        final: pick(random, [
          `${w.invoice} is on hold: it asks for ${w.amount} EUR, but ${w.po} says ${w.poAmount} EUR.`,
          `I put ${w.invoice} on hold, since it asks for ${w.amount} EUR but ${w.po} says ${w.poAmount} EUR.`,
        ]),
      };
    return {
      final: pick(random, [
        `${w.invoice} matches ${w.po} and is approved for payment: ${w.amount} EUR.`,
        `Approved ${w.invoice} for payment: ${w.amount} EUR, it matches ${w.po}.`,
      ]),
    };
  },
  isDone(w, _log, final) {
    const wanted = w.isNew
      ? `flag ${w.invoice} credit_note`
      : w.blocked
        ? `flag ${w.invoice} vendor_blocked`
        : w.amount !== w.poAmount
          ? `flag ${w.invoice} amount_mismatch`
          : `approve ${w.invoice} ${w.amount}`;
    return w.done === wanted && final.includes(w.invoice);
  },
};

/** The order must stay, because the seeds of runs depend on it. */
export const FAMILIES: readonly AgentFamily[] = [ORDERS, INCIDENTS, ENTRY, CODE, TRAVEL, INVOICES];
