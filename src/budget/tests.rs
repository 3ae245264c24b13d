use super::*;
use std::time::Duration;

const KIB: usize = 1 << 10;

#[test]
fn what_is_charged_is_given_back() {
    let budget = Budget::new("test", 10 * KIB);
    let mut charge = budget.try_charge(4 * KIB).unwrap();
    assert!(charge.try_grow_to(6 * KIB) && charge.try_grow_to(5 * KIB));
    assert_eq!((charge.bytes(), budget.bytes()), (6 * KIB, 6 << 10));
    assert!(budget.try_charge(5 * KIB).is_none() && !charge.try_grow_to(11 * KIB));
    charge.shrink_to(2 * KIB);
    assert_eq!((charge.bytes(), budget.bytes()), (2 * KIB, 2 << 10));
    charge.merge(budget.try_charge(8 * KIB).unwrap());
    assert_eq!((charge.bytes(), budget.bytes()), (10 * KIB, 10 << 10));
    assert!(budget.charge_or_refuse(1).is_none());
    assert_eq!(budget.refused.get(), 1);
    drop(charge);
    assert_eq!((budget.bytes(), budget.bytes_max()), (0, 10 << 10));
}

/// Each of them holds half of what it needs, and none would go on.
#[tokio::test(start_paused = true)]
async fn charges_that_grow_do_not_wait_for_each_other_for_ever() {
    let budget = Budget::new("test", 10 * KIB);
    let grow = || {
        let budget = Arc::clone(&budget);
        async move {
            let mut charge = Arc::clone(&budget).charge(2 * KIB).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            for bytes in (3..=8).map(|n| n * KIB) {
                if !charge.try_grow_to(bytes) {
                    let more = Arc::clone(&budget).charge(bytes - charge.bytes()).await;
                    charge.merge(more);
                }
                assert_eq!(charge.bytes(), bytes);
                assert!(budget.bytes() <= (10 + 8) << 10, "beyond the budget is one of them");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    let all = futures_util::future::join_all((0..5).map(|_| grow()));
    tokio::time::timeout(Duration::from_secs(1), all).await.expect("they wait for each other");
    assert_eq!(budget.bytes(), 0);
    assert!(budget.waited.get() > 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_larger_than_the_budget_has_its_turn_and_others_their_deadline() {
    let budget = Budget::new("test", 10 * KIB);
    let small = budget.try_charge(KIB).unwrap();
    let large = Arc::clone(&budget).charge(100 * KIB).await;
    assert_eq!((large.bytes(), budget.bytes()), (100 * KIB, 101 << 10));
    let deadline = Instant::now() + Duration::from_secs(1);
    assert!(budget.charge_by(deadline, 50 * KIB).await.is_none());
    assert_eq!((Instant::now(), budget.refused.get()), (deadline, 1));
    assert_eq!(budget.try_charge(9 * KIB).unwrap().bytes(), 9 * KIB, "the rest of the budget is there");
    drop(large);
    let second = budget.charge_by(deadline, 50 * KIB).await.unwrap();
    assert_eq!(budget.bytes(), 51 << 10);
    drop((second, small));
    assert_eq!(budget.bytes(), 0);
}

#[test]
fn bytes_hold_a_charge_until_the_last_clone_is_gone() {
    let budget = Budget::new("test", 10 * KIB);
    let bytes = hold(Bytes::from(vec![7; 2000]), budget.try_charge(2000).unwrap());
    let part = bytes.slice(..10);
    drop(bytes);
    assert_eq!((&part[..], budget.bytes()), (&[7; 10][..], 2 << 10));
    drop(part);
    assert_eq!(budget.bytes(), 0);
}
