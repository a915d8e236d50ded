/**
 * The catalogue editor's categories, attributes and rules. They are the same in all runs, as in a real shop. Pure; bench
 * process.
 */

/** An attribute as sheets and descriptions name it. */
export interface Naming {
  labels: readonly string[];
  /** Words of a description, with `<v>` for the value. */
  phrase: string;
}

interface Measure extends Naming {
  /** Units, with the number of the smallest unit in each. */
  units: Readonly<Record<string, number>>;
  /** Values are multiples of this number of the smallest unit. */
  step: number;
}

interface Choice extends Naming {
  /** The catalogue's words, each with other words of sheets. */
  words: Readonly<Record<string, readonly string[]>>;
}

export const MEASURES: Readonly<Record<string, Measure>> = {
  weight: {
    labels: ['Weight', 'Net weight', 'Weight (net)', 'Mass'],
    phrase: 'weighs <v>',
    units: { g: 1, kg: 1_000 },
    step: 10,
  },
  width: { labels: ['Width', 'W', 'Breadth'], phrase: 'is <v> wide', units: { mm: 1, cm: 10 }, step: 5 },
  height: {
    labels: ['Height', 'H', 'Overall height'],
    phrase: 'is <v> high',
    units: { mm: 1, cm: 10 },
    step: 5,
  },
  depth: {
    labels: ['Depth', 'D', 'Front to back'],
    phrase: 'is <v> deep',
    units: { mm: 1, cm: 10 },
    step: 5,
  },
  capacity: {
    labels: ['Capacity', 'Volume', 'Contents', 'Usable volume'],
    phrase: 'holds <v>',
    units: { ml: 1, l: 1_000 },
    step: 50,
  },
  power: {
    labels: ['Power', 'Rated power', 'Wattage'],
    phrase: 'draws <v>',
    units: { W: 1, kW: 1_000 },
    step: 50,
  },
  battery_life: {
    labels: ['Battery life', 'Runtime', 'Running time'],
    phrase: 'runs for <v> on one charge',
    units: { min: 1, h: 60 },
    step: 30,
  },
  cable_length: {
    labels: ['Cable length', 'Cord', 'Lead length'],
    phrase: 'has a cable of <v>',
    units: { cm: 1, m: 100 },
    step: 5,
  },
};

export const CHOICES: Readonly<Record<string, Choice>> = {
  colour: {
    labels: ['Colour', 'Color', 'Finish'],
    phrase: 'comes in <v>',
    words: {
      black: ['ebony', 'jet'],
      white: ['ivory', 'snow'],
      grey: ['anthracite', 'slate'],
      blue: ['navy', 'azure'],
      green: ['olive', 'moss'],
      red: ['crimson', 'ruby'],
      beige: ['sand', 'cream'],
    },
  },
  material: {
    labels: ['Material', 'Main material', 'Made of'],
    phrase: 'is made of <v>',
    words: {
      steel: ['stainless steel', '18/10 steel'],
      aluminium: ['anodised aluminium', 'alu'],
      plastic: ['polypropylene', 'ABS'],
      glass: ['borosilicate', 'hardened glass'],
      wood: ['beech', 'oak'],
      textile: ['canvas', 'ripstop nylon'],
    },
  },
  origin: {
    labels: ['Country of origin', 'Made in', 'Origin'],
    phrase: 'is made in <v>',
    words: {
      PT: ['Portugal'],
      IT: ['Italy'],
      VN: ['Vietnam'],
      DE: ['Germany'],
      TR: ['Turkey'],
      PL: ['Poland'],
    },
  },
  dishwasher: {
    labels: ['Dishwasher', 'Dishwasher safe', 'Suitable for dishwashers'],
    phrase: 'and the dishwasher: <v>',
    words: { yes: ['suitable', 'ok'], no: ['not suitable', 'hand wash only'] },
  },
};

/** An attribute of a category. A measure has its unit, and its range in the smallest unit. */
export interface Demand {
  name: string;
  is_required: boolean;
  unit?: string;
  /** The words that make sense for the category; by default all of the attribute. */
  words?: readonly string[];
  low?: number;
  high?: number;
}

const measure = (name: string, unit: string, low: number, high: number, is_required = true): Demand => ({
  ...{ name, is_required, unit, low, high },
});
const choice = (
  name: string,
  is_required: boolean,
  words: readonly string[] = Object.keys(CHOICES[name]!.words),
): Demand => ({ name, is_required, words });

/** The categories of the catalogue, with the words of sheets for their products. */
export const CATEGORIES: Readonly<Record<string, { kinds: readonly string[]; demands: readonly Demand[] }>> =
  {
    kettles: {
      kinds: ['electric kettle', 'cordless kettle', 'travel kettle'],
      demands: [
        measure('capacity', 'l', 500, 2_000),
        measure('power', 'W', 800, 3_000),
        measure('weight', 'g', 600, 2_400),
        choice('colour', true),
        choice('material', false, ['steel', 'plastic', 'glass']),
        measure('cable_length', 'cm', 60, 150, false),
      ],
    },
    blenders: {
      kinds: ['stand blender', 'hand blender', 'smoothie maker'],
      demands: [
        measure('capacity', 'ml', 400, 2_000),
        measure('power', 'W', 250, 1_800),
        measure('weight', 'kg', 900, 6_000, false),
        choice('colour', false),
        choice('dishwasher', true),
        choice('origin', false),
      ],
    },
    lamps: {
      kinds: ['desk lamp', 'reading lamp', 'clamp lamp'],
      demands: [
        measure('height', 'cm', 180, 900),
        measure('weight', 'g', 300, 4_000, false),
        measure('cable_length', 'm', 100, 300),
        choice('colour', true),
        choice('material', false, ['steel', 'aluminium', 'plastic', 'wood']),
      ],
    },
    backpacks: {
      kinds: ['daypack', 'hiking backpack', 'laptop backpack'],
      demands: [
        measure('capacity', 'l', 10_000, 65_000),
        measure('weight', 'g', 400, 2_600),
        measure('height', 'cm', 350, 800, false),
        choice('colour', true),
        choice('material', false, ['textile', 'plastic']),
        choice('origin', false),
      ],
    },
    bottles: {
      kinds: ['water bottle', 'vacuum flask', 'drinking bottle'],
      demands: [
        measure('capacity', 'ml', 300, 1_500),
        measure('weight', 'g', 100, 800, false),
        choice('material', true, ['steel', 'aluminium', 'plastic', 'glass']),
        choice('colour', false),
        choice('dishwasher', true),
      ],
    },
    headphones: {
      kinds: ['over-ear headphones', 'in-ear headphones', 'headset'],
      demands: [
        measure('battery_life', 'h', 300, 3_600),
        measure('weight', 'g', 30, 400),
        choice('colour', true),
        measure('cable_length', 'm', 30, 200, false),
        choice('origin', false),
      ],
    },
    boxes: {
      kinds: ['storage box', 'stacking crate', 'lidded chest'],
      demands: [
        measure('width', 'cm', 200, 900),
        measure('height', 'cm', 120, 600),
        measure('depth', 'cm', 150, 700),
        measure('capacity', 'l', 5_000, 120_000, false),
        choice('material', true, ['plastic', 'wood', 'textile', 'steel']),
        choice('colour', false),
      ],
    },
    drills: {
      kinds: ['cordless drill', 'impact drill', 'drill driver'],
      demands: [
        measure('power', 'W', 300, 1_400),
        measure('weight', 'kg', 900, 5_500),
        measure('battery_life', 'min', 30, 240, false),
        choice('origin', true),
        choice('colour', false),
      ],
    },
  };

export const BRANDS =
  'Aldervane,Brisk & Son,Corvida,Dunmere,Ellory,Fjordhem,Gantry,Halden,Ivarsen,Juniper,Kestrel,Lumora,Marlow,Nordlys,Ondine,Pellworth,Quillan,Rowanby,Solvane,Tarn'.split(
    ',',
  );
export const MODELS =
  'Alto,Bruma,Cinder,Delta,Ember,Faro,Glade,Hektor,Iris,Jolt,Kite,Lagoon,Mistral,Nimbus,Opal,Pico,Quartz,Ridge,Sirocco,Tundra,Umbra,Vale,Willow,Zephyr'.split(
    ',',
  );
export const SUPPLIERS =
  'Bexley Trading,Harlan Imports,Mondo Supply,Osterby Wholesale,Ridgeway Goods,Talbot & Co,Vesper Trade'.split(
    ',',
  );

/** Writes the limit of a measure in the unit of the rules. */
export function limitOf({ name, unit, high }: Demand): string {
  return String(high! / MEASURES[name]!.units[unit!]!);
}

/** Writes the rules of a category. */
export function writeRules(category: string): string {
  return [
    `# ${category}`,
    ...CATEGORIES[category]!.demands.map((demand) => {
      const need = demand.is_required ? 'required' : 'optional';
      if (demand.unit !== undefined)
        return `- ${demand.name}: ${need}, in ${demand.unit}, at most ${limitOf(demand)}`;
      const others = demand.words!.map(
        (value) => `${value} (${CHOICES[demand.name]!.words[value]!.join(', ')})`,
      );
      return `- ${demand.name}: ${need}, one of: ${others.join('; ')}`;
    }),
    'Words in brackets count as the word before them.',
  ].join('\n');
}
