/**
 * The departments of the clinic scheduler's clinic: doctors, rules and complaints. They are the same in all runs, as in a
 * real clinic. Pure; bench process.
 */

/** What a patient complains of. */
export interface Complaint {
  /** A clause, as the patient says it. */
  says: string;
  short: string;
  about: RegExp;
}

interface Department {
  doctors: readonly string[];
  /** The largest age of a referral in days; null: no referral is needed. */
  referral_days: number | null;
  needs_questionnaire: boolean;
  rules: string;
  complaints: readonly Complaint[];
}

export const DEPARTMENTS: Readonly<Record<string, Department>> = {
  cardiology: {
    doctors: ['Galanis', 'Reuter', 'Mbeki'],
    referral_days: 90,
    needs_questionnaire: true,
    rules:
      'Cardiology sees patients with a referral only. The referral must not be older than 90 days on the day of booking. The ECG is taken here. The heart questionnaire has to be on file; if it is not, ask for it, but book all the same.',
    complaints: [
      {
        says: 'my heart {stumbles|skips a beat} {in the evenings|when I lie down}',
        short: 'irregular heartbeat',
        about: /heart/,
      },
      {
        says: 'my pacemaker {is due for its check|needs its yearly check}',
        short: 'pacemaker check',
        about: /pacemaker/,
      },
      {
        says: 'my blood pressure {has been high for weeks|does not come down in spite of the tablets}',
        short: 'high blood pressure',
        about: /blood pressure/,
      },
      {
        says: 'my ankles {are swollen|swell} {every evening|by the end of the day}',
        short: 'swollen ankles',
        about: /ankle/,
      },
    ],
  },
  dermatology: {
    doctors: ['Petrov', 'Haddad', 'Quist'],
    referral_days: null,
    needs_questionnaire: false,
    rules:
      'No referral is needed in dermatology. Patients should not use creams on the day of the visit. Biopsies are planned at a second visit.',
    complaints: [
      {
        says: 'a mole on my {back|shoulder|arm} {has changed|looks different from before}',
        short: 'changed mole',
        about: /mole/,
      },
      {
        says: 'I have an itchy rash {behind my knees|on both hands} that {will not go away|keeps coming back}',
        short: 'itchy rash',
        about: /rash/,
      },
      {
        says: 'my {scalp|face} {has been flaking for weeks|is dry and flaky}',
        short: 'flaking skin',
        about: /flak/,
      },
      {
        says: 'there is a wart under my {heel|toe}{ that hurts when I walk|}',
        short: 'wart on the foot',
        about: /wart/,
      },
    ],
  },
  orthopaedics: {
    doctors: ['Brandt', 'Tremblay'],
    referral_days: 60,
    needs_questionnaire: false,
    rules:
      'Patients bring their X-ray pictures. Orthopaedics needs a referral, at most 60 days old. Insoles are fitted by the workshop, not by the doctors.',
    complaints: [
      {
        says: 'my {left|right} knee {clicks|hurts} {on stairs|when I squat}',
        short: 'knee pain',
        about: /knee/,
      },
      {
        says: 'I cannot lift my {left|right} shoulder {above my head|properly} any more',
        short: 'stiff shoulder',
        about: /shoulder/,
      },
      {
        says: 'my lower back {has been aching since I moved house|is stiff every morning}',
        short: 'lower back pain',
        about: /back/,
      },
      { says: 'my hip {grinds|aches} {after long walks|at night}', short: 'hip pain', about: /hip/ },
    ],
  },
  ophthalmology: {
    doctors: ['Nakamura', 'Ferreira', 'Whitlock'],
    referral_days: null,
    needs_questionnaire: true,
    rules:
      'Eyes: patients may come without a referral. Pupils are widened, so patients should not drive home. Without a questionnaire on file we send one out; the appointment does not wait for it.',
    complaints: [
      {
        says: 'letters {swim|blur} {when I read|in front of my eyes}',
        short: 'blurred reading',
        about: /read|blur/,
      },
      {
        says: 'my eyes {are dry and burn|water} {at the screen|all day}',
        short: 'dry, burning eyes',
        about: /eye/,
      },
      {
        says: 'I need {a new prescription for my glasses|my glasses checked}',
        short: 'check of glasses',
        about: /glasses/,
      },
    ],
  },
  'ear-nose-throat': {
    doctors: ['Kovacs', 'Adeyemi'],
    referral_days: null,
    needs_questionnaire: false,
    rules:
      'Ear, nose and throat: no referral, no forms. Hearing tests are on the same day and take half an hour. Parents stay with children.',
    complaints: [
      {
        says: 'my ears {ring|have been ringing} {since the concert|all the time}',
        short: 'ringing ears',
        about: /ear/,
      },
      {
        says: 'I {am hoarse|have lost my voice} {again|for three weeks now}',
        short: 'hoarseness',
        about: /hoarse|voice/,
      },
      {
        says: 'my nose is blocked {day and night|on one side}',
        short: 'blocked nose',
        about: /nose/,
      },
    ],
  },
  gastroenterology: {
    doctors: ['Varga', 'Olsson', 'Carvalho'],
    referral_days: 30,
    needs_questionnaire: true,
    rules:
      'A referral of the last 30 days is required for gastroenterology; older ones are not accepted. Patients come with an empty stomach. A missing questionnaire is requested and does not delay the booking.',
    complaints: [
      {
        says: 'I {have heartburn|get heartburn} {every night|after each meal}',
        short: 'heartburn',
        about: /heartburn/,
      },
      {
        says: 'my stomach {cramps|hurts} {whenever I eat milk or cheese|after breakfast}',
        short: 'stomach cramps after meals',
        about: /stomach/,
      },
      {
        says: 'I am due for {a bowel screening|my bowel check}',
        short: 'bowel screening',
        about: /bowel/,
      },
    ],
  },
  neurology: {
    doctors: ['Lehtonen', 'Rahman'],
    referral_days: 90,
    needs_questionnaire: false,
    rules:
      'Neurology asks for a headache diary if there is one. Referral: yes, and not older than 90 days. Nerve tests last an hour.',
    complaints: [
      {
        says: 'my migraine {comes more often now|is back every week}',
        short: 'migraine',
        about: /migraine/,
      },
      {
        says: 'my {hands|fingers} {tingle|go to sleep} {every night|when I cycle}',
        short: 'tingling hands',
        about: /tingl|hand/,
      },
      {
        says: 'my hand {has begun to tremble|trembles} {when I hold a cup|when I write}',
        short: 'trembling hand',
        about: /trembl/,
      },
    ],
  },
};

export const EMERGENCIES: readonly Complaint[] = [
  {
    says: 'since {this morning|an hour ago} {there is a weight on my chest|my chest feels as if in a vice} and it pulls into my left arm',
    short: 'pressure on the chest that spreads to the arm',
    about: /chest/,
  },
  {
    says: 'my {husband|wife} cannot lift one arm {all of a sudden|since breakfast} and {slurs|mixes up words}',
    short: 'sudden weakness of an arm and trouble speaking',
    about: /weak|speak|speech/,
  },
  {
    says: 'I can hardly get air, even {when I sit still|sitting on the sofa}',
    short: 'shortness of breath at rest',
    about: /breath/,
  },
  {
    says: 'there is {a lot of|so much} blood {in the toilet|when I cough} and I feel faint',
    short: 'heavy bleeding',
    about: /bleed|blood/,
  },
  {
    says: 'I {see nothing|have seen only black} with my {left|right} eye since {noon|an hour ago}',
    short: 'sudden loss of sight in one eye',
    about: /sight|vision/,
  },
  {
    says: '{after the new tablet|since lunch} my tongue {is swelling|gets thicker and thicker}',
    short: 'swelling of the tongue',
    about: /tongue|swell/,
  },
];
