// Sessions of @platformatic/kafka: `node platformatic.js ADDRESS SESSION`, with the session's
// input on stdin.
"use strict";

const {
  Admin,
  ConfigResourceTypes,
  Consumer,
  ListOffsetTimestamps,
  Producer,
} = require("@platformatic/kafka");
const { byPlace, refusal, start, toBytes, toText, until } = require("./session");

const options = (address) => ({ clientId: "session", bootstrapBrokers: [address], retries: 5 });

async function withAdmin(address, use) {
  const admin = new Admin(options(address));
  try {
    return await use(admin);
  } finally {
    await admin.close();
  }
}

const SET = 0;
const TOPIC = ConfigResourceTypes.TOPIC;

async function configsOf(admin, topic) {
  const resources = [{ resourceType: TOPIC, resourceName: topic, configurationKeys: null }];
  const [described] = await admin.describeConfigs({ resources });
  return Object.fromEntries(described.configs.map((one) => [one.name, one.value]));
}

async function partitionCount(admin, topic) {
  const { topics } = await admin.metadata({ topics: [topic], forceUpdate: true });
  return topics.get(topic).partitionsCount;
}

const changeOf = (topic, value) => ({
  resources: [
    {
      resourceType: TOPIC,
      resourceName: topic,
      configs: [{ name: "segment.bytes", configOperation: SET, value }],
    },
  ],
});

const admin = (address) =>
  withAdmin(address, async (admin) => {
    const topic = "made";
    const configs = [{ name: "retention.ms", value: "5000" }];
    await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs });
    const result = { topics: await admin.listTopics(), partitions: await partitionCount(admin, topic) };
    result.configs = await configsOf(admin, topic);
    await admin.incrementalAlterConfigs(changeOf(topic, "2000"));
    result.altered = await configsOf(admin, topic);
    result.refused = await refusal(admin.incrementalAlterConfigs(changeOf(topic, "many")));
    await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments: null }] });
    result.grown = await partitionCount(admin, topic);
    const cluster = await admin.metadata({ forceUpdate: true });
    result.cluster = { brokers: [...cluster.brokers.keys()], controller: cluster.controllerId };
    await admin.deleteTopics({ topics: [topic] });
    result.left = await admin.listTopics();
    return result;
  });

async function produce(address, { topic, codec, idempotent, records }) {
  const producer = new Producer({ ...options(address), idempotent: Boolean(idempotent) });
  const messages = records.map((one) => ({
    topic,
    partition: one.partition,
    key: toBytes(one.key) ?? undefined,
    value: toBytes(one.value) ?? undefined,
    timestamp: BigInt(one.timestamp),
    headers: new Map(one.headers.map(([name, value]) => [Buffer.from(name), toBytes(value)])),
  }));
  const { offsets } = await producer.send({ messages, compression: codec ?? "none", acks: -1 });
  await producer.close();
  return offsets.map((one) => [one.partition, Number(one.offset)]);
}

async function consumer(address, groupId, topic) {
  const made = new Consumer({
    ...options(address),
    groupId,
    sessionTimeout: 6000,
    rebalanceTimeout: 6000,
    heartbeatInterval: 300,
    maxWaitTime: 500,
  });
  const member = { made, seen: [], assigned: [] };
  made.on("consumer:group:join", ({ assignments }) => {
    member.assigned = (assignments ?? []).flatMap((one) => one.partitions);
  });
  made.on("consumer:group:rebalance", () => {
    member.assigned = [];
  });
  member.stream = await made.consume({
    topics: [topic],
    mode: "committed",
    fallbackMode: "earliest",
    autocommit: false,
  });
  member.stream.on("error", (error) => {
    member.error = error;
  });
  member.stream.on("data", (message) => {
    member.seen.push({
      partition: message.partition,
      offset: Number(message.offset),
      key: toText(message.key),
      value: toText(message.value),
      timestamp: Number(message.timestamp),
      headers: [...message.headers].map(([name, value]) => [name.toString(), toText(value)]),
    });
  });
  return member;
}

async function leave(member) {
  await member.stream.close();
  await member.made.close(true);
}

async function consume(address, { topic, group, count, commit }) {
  const member = await consumer(address, group, topic);
  await until(`${count} records came`, () => member.error || member.seen.length >= count);
  if (member.error) throw member.error;
  if (commit) {
    const offsets = commit.map(([partition, offset]) => ({
      topic,
      partition,
      offset: BigInt(offset),
      leaderEpoch: 0,
    }));
    await member.made.commit({ offsets });
  }
  await leave(member);
  return member.seen.sort(byPlace);
}

async function share(address, { topic, group, partitions }) {
  const isShared = (...members) =>
    members.every((one) => one.assigned.length > 0) &&
    members.flatMap((one) => one.assigned).length === partitions;
  const assigned = (...members) => members.map((one) => [...one.assigned].sort());
  const first = await consumer(address, group, topic);
  await until("one has all", () => isShared(first));
  const alone = assigned(first);
  const second = await consumer(address, group, topic);
  await until("two share", () => isShared(first, second));
  const together = assigned(first, second);
  const described = await withAdmin(address, groupsOf(group));
  await leave(second);
  await until("one has all again", () => isShared(first));
  const after = assigned(first);
  await leave(first);
  return { alone, together, after, ...described };
}

const groupsOf = (group) => async (admin) => {
  const groups = await admin.listGroups();
  const one = (await admin.describeGroups({ groups: [group] })).get(group);
  return {
    groups: [...groups.keys()],
    state: one.state,
    protocol: one.protocolType,
    members: [...one.members.values()].map((each) => each.clientId),
  };
};

const offsets = (address, { topic, group, timestamp, set }) =>
  withAdmin(address, async (admin) => {
    const numbers = set.map(([partition]) => partition);
    const at = async (time) => {
      const partitions = numbers.map((each) => ({ partitionIndex: each, timestamp: BigInt(time) }));
      const [found] = await admin.listOffsets({ topics: [{ name: topic, partitions }] });
      return found.partitions.map((one) => [one.partitionIndex, Number(one.offset)]).sort();
    };
    const committed = async () => {
      const [found] = await admin.listConsumerGroupOffsets({ groups: [group] });
      return found.topics
        .flatMap((one) => one.partitions)
        .map((one) => [one.partitionIndex, Number(one.committedOffset)])
        .sort();
    };
    const result = {
      earliest: await at(ListOffsetTimestamps.EARLIEST),
      latest: await at(ListOffsetTimestamps.LATEST),
      at: await at(timestamp),
      committed: await committed(),
    };
    const places = set.map(([partition, offset]) => ({ partition, offset: BigInt(offset) }));
    const topics = [{ name: topic, partitionOffsets: places }];
    await admin.alterConsumerGroupOffsets({ groupId: group, topics });
    result.set = await committed();
    await admin.deleteGroups({ groups: [group] });
    result.groups = [...(await admin.listGroups()).keys()];
    await admin.deleteRecords({ topics: [{ name: topic, partitions: places }] });
    result.low = await at(ListOffsetTimestamps.EARLIEST);
    return result;
  });

start({ admin, consume, offsets, produce, share });
